"""A batch runs through a step of [[map]] once more: in a new process, with another seed of hashes, cut otherwise.

`python -m tokcore_pipelines.reading.map_again` reads the batch from its input, and writes what the step makes of it.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.ipc

from tokcore.errors import ConfigError, StageError
from tokcore.plugins.map_outcome import MapFault, apply_map, cut_otherwise, join_outcomes
from tokcore.plugins.map_step import find_function

_SIZE = struct.Struct("<Q")


def run_again(run: str, batch: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    """What a step makes of a batch in another process, in the order of records. seed: of the cuts.

    Raises MapFault as apply_map does, and StageError if the process ends early.
    """
    path = os.pathsep.join(one for one in sys.path if one)  # it must be able to import what this process can
    other_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    told = _write_message({"run": run, "seed": seed}, batch)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tokcore_pipelines.reading.map_again"],
        input=told,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": other_seed, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        last = " | ".join(done.stderr.decode(errors="replace").splitlines()[-3:])
        raise StageError(f"{run}: the process that ran it again ended with exit code {done.returncode}: {last}")
    reply, made = _read_message(done.stdout)
    if "fault" in reply:
        raise MapFault(reply["record"], f"in another process, in other batches: {reply['fault']}")
    assert made is not None
    return made


def main(requests: BinaryIO, replies: BinaryIO) -> None:
    """Serve one request."""
    told, batch = _read_message(requests.read())
    assert batch is not None
    try:
        function = find_function(told["run"])
        outcome = join_outcomes([apply_map(function, part) for part in cut_otherwise(batch, told["seed"])])
        reply = _write_message({}, outcome)
    except MapFault as fault:
        reply = _write_message({"record": fault.record, "fault": fault.text}, None)
    except ConfigError as error:
        reply = _write_message({"record": None, "fault": str(error)}, None)
    replies.write(reply)


def _write_message(told: dict[str, Any], batch: pa.RecordBatch | None) -> bytes:
    head = json.dumps(told).encode()
    sink = pa.BufferOutputStream()
    if batch is not None:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    return b"".join((_SIZE.pack(len(head)), head, sink.getvalue()))


def _read_message(data: bytes) -> tuple[dict[str, Any], pa.RecordBatch | None]:
    end = _SIZE.size + _SIZE.unpack_from(data)[0]
    told = json.loads(data[_SIZE.size : end])
    return told, pa.ipc.open_stream(data[end:]).read_next_batch() if len(data) > end else None


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints is no reply
    main(sys.stdin.buffer, out)
    out.close()
