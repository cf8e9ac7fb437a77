"""`verify --sample` looks at the drawn pieces as verify does, at the sizes of all others, and says what that finds."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal

import pytest
from support.builds import build_file, run, small_corpus, tokcore
from support.forging import Forger

from tokcore.errors import ConfigError
from tokcore_pipelines.check.sampled import Sample, compute_chance, get_piece, parse_sample
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.stage_table import parse_manifest

MIXED = """
[learn]
vocab_size = 300
[plan]
range_bytes = 2000
[shards]
formats = ["arrow", "megatron"]
target_tokens = 400
[shuffle]
seed = 3
[mixture]
strategy = "natural"
[pack]
length = 64
"""


def found(output, share="0.5", seed=0, **options):
    return verify(str(output), sample=Sample(Decimal(share), seed), options=RunOptions(here=True), **options)


def list_pieces(output):
    """(stage, piece) -> the paths of its files, read out of the manifests."""
    pieces = {}
    for path in sorted(output.glob("*/manifest.json")):
        made = parse_manifest(path.read_bytes(), "")
        for entry in made.files:
            if (piece := get_piece(entry)) is not None:
                pieces.setdefault((made.stage, piece), []).append(path.parent / entry.path)
    return pieces


@pytest.mark.parametrize("share", ["0.001", "0.3", "1"])
def test_a_sound_output(output, share):
    pieces = list_pieces(output)
    report = found(output, share, decode=5)
    by_stage = [len([*group]) for _, group in itertools.groupby(sorted(stage for stage, _ in pieces))]
    assert report.problems == ()
    assert report.num_pieces == len(pieces)
    assert report.num_drawn == sum(math.ceil(Decimal(share) * num) for num in by_stage)
    assert report.num_decoded >= 5
    whole = verify(str(output), options=RunOptions(here=True))
    assert (report.num_read == whole.num_read) == (share == "1")
    assert (whole.num_pieces, whole.num_drawn) == (0, 0)


def test_a_flipped_byte_is_found_where_it_is_drawn(output):
    """Each piece, by each of some seeds: found if and only if it is drawn, and then named."""
    drawn_of = {}
    for path in output.glob("*/manifest.json"):
        made = parse_manifest(path.read_bytes(), "")
        drawn_of[made.stage] = [Sample(Decimal("0.4"), seed).draw(made) for seed in range(3)]
    outcomes = set()
    for (stage, piece), paths in list_pieces(output).items():
        data = paths[0].read_bytes()
        paths[0].write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        for seed in range(3):
            problems = found(output, "0.4", seed, quick=True).problems
            is_drawn = piece in drawn_of[stage][seed]
            name = paths[0].relative_to(output)
            assert problems == ((f"{name}: its bytes are not the ones that were committed",) if is_drawn else ())
            outcomes.add(is_drawn)
        paths[0].write_bytes(data)
    assert outcomes == {True, False}


def test_what_is_cheap_is_looked_at_whatever_is_drawn(output):
    for (_, _), paths in list_pieces(output).items():
        data = paths[0].read_bytes()
        paths[0].write_bytes(data + b"\0")
        assert any(str(paths[0].relative_to(output)) in one for one in found(output, "0.01").problems)
        paths[0].unlink()
        assert any(str(paths[0].relative_to(output)) in one for one in found(output, "0.01").problems)
        paths[0].write_bytes(data)
    for name in ("plan/files.jsonl", "rejected/rejected.jsonl", "tokenizer/merges.txt", "README.md"):
        data = (output / name).read_bytes()
        (output / name).write_bytes(data[:-1] + b"?" if data else b"?")
        assert any(one.startswith(f"{name}: ") for one in found(output, "0.01").problems)
        (output / name).write_bytes(data)


def test_what_a_drawn_shard_holds_is_compared(output):
    """A shard without its first document, and all hashes corrected: found if drawn, and only then."""
    forger = Forger(output)
    name = forger.shard_names()[0]
    batch = forger.read_arrow(f"arrow/{name}.arrow")
    forger.write_shard(name, batch.take(range(1, batch.num_documents)), ["arrow", "megatron"])
    forger.hash_again(2)
    made = parse_manifest((output / "shards" / "manifest.json").read_bytes(), "")
    item = next(entry.about.item for entry in made.files if name in entry.path)
    outcomes = set()
    for seed in range(6):
        is_drawn = item in Sample(Decimal("0.5"), seed).draw(made)
        assert bool(found(output, seed=seed).problems) == is_drawn
        outcomes.add(is_drawn)
    assert outcomes == {True, False}


def test_mixtures_rows_and_shuffles(tmp_path):
    small_corpus(tmp_path)
    run(build_file(tmp_path, settings=MIXED), tmp_path / "out")
    assert {"shards", "mixed", "packed"} <= {stage for stage, _ in list_pieces(tmp_path / "out")}
    for seed in range(3):
        assert found(tmp_path / "out", "0.3", seed).problems == ()


def test_the_chance_is_that_of_all_ways_to_draw():
    for pieces, drawn, damaged in ((6, 2, 1), (6, 3, 2), (5, 1, 4), (5, 3, 3), (4, 4, 1)):
        ways = [*itertools.combinations(range(pieces), drawn)]
        share = sum(min(way) < damaged for way in ways) / len(ways)
        assert compute_chance(pieces, drawn, damaged) == pytest.approx(share)


@pytest.mark.parametrize("share", ["0", "-0.1", "1.01", "many", "nan"])
def test_shares_that_are_none(share):
    with pytest.raises(ConfigError, match=f"^--sample {share}"):
        parse_sample(share, 0)


def test_the_command(output):
    done = tokcore("verify", output, "--sample", "0.5", "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert "pieces drawn (seed 7); one would have been found in " in done.stdout
    told = json.loads(tokcore("verify", output, "--sample", "0.5", "--json").stdout)
    assert 0 < told["num_drawn"] < told["num_pieces"]
    for wrong in (("--seed", "3"), ("--sample", "0.1", "--decode", "all"), ("--sample", "0.1", "--prove", "README.md")):
        assert tokcore("verify", output, *wrong).returncode == 2
