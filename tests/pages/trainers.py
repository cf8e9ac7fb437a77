"""The page for trainers: of each format a part of a build file, and Python that reads what the build wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from support.builds import ROOT, tokcore

from tokcore import open_shards

_PAGE = ROOT / "docs" / "how-to" / "feed-a-trainer.md"
_SECTION = re.compile(r"```toml\n(.*?)^```\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Whatever a block calls ids stands somewhere in the shards, id after id.
_COMPARE = """
import sys, numpy
found, written = numpy.asarray(ids, "<i4").ravel(), numpy.load(sys.argv[1])
places = numpy.flatnonzero(written == found[0])
assert len(found) > 16 and any(numpy.array_equal(written[i : i + len(found)], found) for i in places), found
print(len(found))
"""


class Trainer(NamedTuple):
    settings: str  # [shards]
    code: str

    @property
    def compared(self) -> str:
        """The code, and then a comparison with all training ids, whose file is the first argument."""
        return self.code + (_COMPARE if re.search(r"^ids = ", self.code, re.MULTILINE) else "")


def list_trainers() -> dict[str, Trainer]:
    """The format that each writes -> what the page says."""
    found = [Trainer(*texts) for texts in _SECTION.findall(_PAGE.read_text())]
    return {re.findall(r'formats = \["(\w+)"\]', one.settings)[0]: one for one in found}


def build_for(trainer: Trainer, folder: Path) -> Path:
    """Build two languages of the demo in a folder, to `out` there; the file of all training ids."""
    source = "".join(
        f'[[source]]\nlang = "{lang}"\nid = "id"\nfiles = "{ROOT}/deploy/demo/data/{lang}/*"\n' for lang in ("ru", "sw")
    )
    head = 'version = 1\n[build]\noutput = "out"\n'
    (folder / "build.toml").write_text(f"{head}{source}[learn]\nvocab_size = 1000\n{trainer.settings}")
    done = tokcore("build", folder / "build.toml", "--workers", "1")
    assert done.returncode == 0, done.stderr
    np.save(folder / "ids.npy", np.concatenate(list(open_shards(folder / "out", "train"))))
    return folder / "ids.npy"
