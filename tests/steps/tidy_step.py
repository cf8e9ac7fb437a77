"""A step of [[map]] that tests of builds run: it mends a misspelling, and leaves texts out that say so."""

import pyarrow as pa
import pyarrow.compute as pc


def tidy(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without texts that begin with DROP, and with `the` where it was misspelled."""
    batch = batch.filter(pc.invert(pc.starts_with(batch["text"], "DROP ")))
    return batch.set_column(
        batch.schema.get_field_index("text"), "text", pc.replace_substring(batch["text"], "teh", "the")
    )
