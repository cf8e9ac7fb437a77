"""Races with the oldest libraries of stores that pyproject.toml allows: PYTHONPATH=tests python tests/stores/oldest.py

Installs them below build/oldest, once, which needs the network.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

from stores.servers import GCSFS_SWITCH, ROOT, STARTS
from stores.test_races import RACER, RACES, assert_one_winner_each, race

FOLDER = ROOT / "build" / "oldest"


def find_floors() -> dict[str, str]:
    """Library -> the oldest version that an extra asks for, of the stores' libraries and what they stand on."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = (
        re.fullmatch(r"(s3fs|gcsfs|adlfs|botocore)>=([0-9.]+)", line)
        for of in ("s3", "gcs", "azure")
        for line in extras[of]
    )
    return {found[1]: found[2] for found in wanted if found}


def main() -> None:
    """Install, race in each store, and say who was raced with. Raises AssertionError if an object has two creators."""
    floors = find_floors()
    if not FOLDER.exists():
        pins = [f"{name}=={version}" for name, version in floors.items()]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(FOLDER), *pins], check=True)
    os.environ.setdefault(GCSFS_SWITCH, "false")
    path = os.pathsep.join([str(FOLDER), str(ROOT)])
    for library, start in zip(("s3fs", "gcsfs", "adlfs"), STARTS.values(), strict=True):
        wanted = {library: floors[library], **({"botocore": floors["botocore"]} if library == "s3fs" else {})}
        check = "".join(f"import {one}; assert {one}.__version__.startswith({of!r})\n" for one, of in wanted.items())
        with start() as store:
            assert_one_winner_each(race(store, RACES, check + RACER, PYTHONPATH=path), RACES)
        told = ", ".join(f"{one} {of}" for one, of in wanted.items())
        print(f"{told}: {RACES} races, one winner each", flush=True)


if __name__ == "__main__":
    main()
