"""What the public transforms ask of their input, checked while the pipeline is built, or for each element."""

from __future__ import annotations

from typing import Any

from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from apache_beam.typehints import typehints

from tokcore.errors import ConfigError
from tokcore_schemas.document import Document


def check_documents(transform: str, documents: Any) -> None:
    """Raise TypeError unless the PCollection may hold documents: unless its type is Document or unknown."""
    kind = documents.element_type
    if kind is TimestampedValue:  # what beam.Create says of the values in them
        return
    if not typehints.is_consistent_with(kind or typehints.Any, Document):
        found = getattr(kind, "__name__", None) or str(kind)
        raise TypeError(
            f"{transform}: expected a PCollection of tokcore_schemas.Document, found one of {found}. Make documents "
            f"first, for example beam.Map(lambda text: Document('en', None, text))."
        )


def check_ends(transform: str, documents: Any) -> None:
    """Raise ConfigError unless the PCollection is bounded, in the global window and fires once."""
    if not documents.is_bounded:
        raise ConfigError(
            f"{transform}: its input is unbounded, so its counts would never be final. Read a bounded input."
        )
    windowing = documents.windowing
    if windowing.windowfn != GlobalWindows():
        raise ConfigError(
            f"{transform}: its input is in {type(windowing.windowfn).__name__}, and a table counts all documents of a "
            f"language. Put beam.WindowInto(beam.window.GlobalWindows()) before it."
        )
    if windowing.triggerfn != DefaultTrigger():
        raise ConfigError(
            f"{transform}: its input fires at {windowing.triggerfn}, and a table is written once. Remove the trigger."
        )


def check_document(transform: str, element: object) -> None:
    """Raise TypeError for an element that is no Document, which a PCollection of unknown type may hold."""
    if not isinstance(element, Document):
        found = type(element).__name__
        raise TypeError(
            f"{transform}: expected elements of type tokcore_schemas.Document, found {found}: {element!r:.80}"
        )
