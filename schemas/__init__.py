"""Nouns: what crosses a boundary between processes or machines. schemas/README.md has a map of the modules."""

from tokcore_schemas.document import Document, DocumentChunk, EncodedDocument

__all__ = ["Document", "DocumentChunk", "EncodedDocument"]
