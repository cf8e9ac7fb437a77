"""Suites of tests that every format, model and reader passes: ours, and those of other distributions. Needs pytest.

    class TestToyFormat(FormatTests):
        format = ToyFormat()

format_tests, model_tests, reader_tests: what they ask. shard_examples: documents, and shards made of them.
"""

import pytest

# Before they are imported, so that a failed assert shows its values.
pytest.register_assert_rewrite(
    "tokcore.testing.format_tests", "tokcore.testing.model_tests", "tokcore.testing.reader_tests"
)

from tokcore.testing.format_tests import FormatTests  # noqa: E402
from tokcore.testing.model_tests import ModelTests  # noqa: E402
from tokcore.testing.reader_tests import ReaderTests  # noqa: E402

__all__ = ["FormatTests", "ModelTests", "ReaderTests"]
