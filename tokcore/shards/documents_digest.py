"""documents_digest: one digest of any number of documents, whatever files and order they are in.

It can be added up from parts, and what was taken away can be subtracted. So the digest of a corpus follows from those
of its shards, and a change of the corpus from the documents that changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokcore.kernel import MuHash


class DocumentsDigest:
    """MuHash3072, as Bitcoin Core specifies it, over documents; a document that is there twice counts twice.

    The members are the bytes that a document's own digest is the sha256 of. One thread at a time.

    >>> one, other = DocumentsDigest(), DocumentsDigest()
    >>> one.add([bytes(32), b"a" * 32])
    >>> other.add([b"a" * 32, b"b" * 32, bytes(32)])
    >>> other.subtract([b"b" * 32])
    >>> one.hexdigest() == other.hexdigest(), other.num_documents
    (True, 2)
    """

    def __init__(self) -> None:
        self._hash = MuHash()
        self.num_documents = 0

    def add(self, digests: Sequence[bytes]) -> None:
        """Add documents by their digests, 32 bytes each: those of compute_document_digests."""
        self._hash.add(b"".join(digests))
        self.num_documents += len(digests)

    def subtract(self, digests: Sequence[bytes]) -> None:
        """Take documents out again. Whether they were in is not checked; numbers of documents may become negative."""
        self._hash.subtract(b"".join(digests))
        self.num_documents -= len(digests)

    def add_up(self, hexdigest: str, num_documents: int) -> None:
        """Add all documents of another digest. Raises ValueError unless it has 768 hexadecimal digits."""
        self._hash.add_value(bytes.fromhex(hexdigest))
        self.num_documents += num_documents

    def hexdigest(self) -> str:
        """768 hexadecimal digits: the number of 384 bytes, little-endian. Of no documents, it is 1."""
        return self._hash.value().hex()
