"""Suites of tests that every format, model, reader and step of [[map]] passes, ours and others'. Needs pytest.

    class TestToyFormat(FormatTests):
        format = ToyFormat()

format_tests, model_tests, reader_tests, map_tests: what they ask. shard_examples: documents, and shards made of them.
"""

import pytest

# Before they are imported, so that a failed assert shows its values.
pytest.register_assert_rewrite(*(f"tokcore.testing.{name}_tests" for name in ("format", "map", "model", "reader")))

from tokcore.testing.format_tests import FormatTests  # noqa: E402
from tokcore.testing.map_tests import MapTests  # noqa: E402
from tokcore.testing.model_tests import ModelTests  # noqa: E402
from tokcore.testing.reader_tests import ReaderTests  # noqa: E402

__all__ = ["FormatTests", "MapTests", "ModelTests", "ReaderTests"]
