"""Nouns: what crosses a boundary between processes or machines."""

from schemas.document import Document, EncodedDocument

__all__ = ["Document", "EncodedDocument"]
