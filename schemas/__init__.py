"""Nouns: what crosses a boundary between processes or machines. schemas/README.md has a map of the modules."""

from tokcore_schemas.document import Document, EncodedDocument

__all__ = ["Document", "EncodedDocument"]
