"""Seeded defects find their code wherever it stands and however it is wrapped. `make lint` checks that each applies."""

from __future__ import annotations

import doctest
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mutants import anchors, cpp_definitions, run
from mutants.anchors import AnchorError, find_definitions, locate, replace_code
from mutants.defects import DEFECTS
from mutants.run import Outcome


@contextmanager
def refused(match: str) -> Iterator[None]:
    with pytest.raises(AnchorError, match=match):
        yield


def changed(root: Path, where: str, old: str, new: str) -> tuple[str, str]:
    """The file that is changed, and its new text."""
    place = locate(root, find_definitions(root), where, old)
    return place.path, replace_code((root / place.path).read_text(), place, new)


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize("module", [anchors, cpp_definitions, run])
def test_examples(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


PYTHON = """
SIZES = [1, 2]
class Reader:
    limit = 3
    @property
    def left(self):
        if self.limit and self.size:
            return self.limit - self.size
        return 0
    def read(self):
        def ask(url):
            return fetch(url, self.limit)
        return ask(self.url)
for size in SIZES:
    print(size)
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("where", "old", "new", "line"),
    [
        ("SIZES", "2", "3", "SIZES = [1, 3]"),
        ("Reader.limit", "3", "4", "    limit = 4"),
        ("Reader", "3", "4", "    limit = 4"),
        ("Reader.left", "@property", "", "    "),
        ("Reader.left", "self.limit and", "", "        if  self.size:"),
        ("Reader.read.ask", "self.limit", "9", "            return fetch(url, 9)"),
        ("size", "print", "show", "    show(size)"),
        ("__main__", "main()", "pass", "    pass"),
        ("pipelines/a.py: SIZES", "1", "0", "SIZES = [0, 2]"),
    ],
)
def test_what_python_defines(tmp_path, where, old, new, line):
    write(tmp_path, "pipelines/a.py", PYTHON)
    path, text = changed(tmp_path, where, old, new)
    assert path == "pipelines/a.py"
    assert text != PYTHON
    assert line in text.split("\n")


CPP = """
#include <vector>
namespace tokcore {
// A comment { that opens.
namespace {
constexpr int kSizes[] = {1, 2};
template <class T>
int twice(const T& one) { return one + one; }
}  // namespace
enum class Status : uint8_t { kOk, kFull };
class Learner final : public Base {
 public:
  explicit Learner(int size) : sizes_{size}, left_(size) { check(size); }
  int pop() const { return left_; }
  bool operator<(const Learner& other) const { return left_ < other.left_; }
 private:
  struct Row {
    int64_t count = 0;
  };
  int left_ = 7;
};
void Learner::push(char sign) {
  if (sign == '{') { left_ += 1; }
}
}  // namespace tokcore
"""


@pytest.mark.parametrize(
    ("where", "old", "new", "line"),
    [
        ("kSizes", "2", "3", "constexpr int kSizes[] = {1, 3};"),
        ("twice", "one + one", "one", "int twice(const T& one) { return one; }"),
        ("Status", "kOk,", "kAny,", "enum class Status : uint8_t { kAny, kFull };"),
        ("Learner::Learner", "check(size);", "", None),
        ("Learner::pop", "left_", "0", "  int pop() const { return 0; }"),
        ("Learner::operator<", "<  other.left_", "<= other.left_", None),
        ("Learner::Row", "int64_t", "int32_t", "    int32_t count = 0;"),
        ("Learner::Row::count", "0", "1", "    int64_t count = 1;"),
        ("Learner::left_", "7", "8", "  int left_ = 8;"),
        ("Learner::push", "left_ += 1", "left_ += 2", "  if (sign == '{') { left_ += 2; }"),
    ],
)
def test_what_cpp_defines(tmp_path, where, old, new, line):
    write(tmp_path, "tokcore/native/a.cpp", CPP)
    path, text = changed(tmp_path, where, old, new)
    assert path == "tokcore/native/a.cpp"
    assert text != CPP
    assert line is None or line in text.split("\n")


def test_code_that_moves_or_is_wrapped_again_keeps_its_defects(tmp_path):
    defect = ("Queue.pop", "return first(self.rows, limit=self.size)", "return self.rows\nraise Empty")
    head = "class Queue:\n    def pop(self):\n"
    write(tmp_path, "tokcore/a.py", f"{head}        return first(self.rows, limit=self.size)\n")
    assert changed(tmp_path, *defect)[0] == "tokcore/a.py"
    (tmp_path / "tokcore/a.py").unlink()
    wrapped = "return first(\n                self.rows,\n                limit=self.size,\n            )"
    write(tmp_path, "tokcore/queues/b.py", f"{head}        if self:\n            {wrapped}\n")
    path, text = changed(tmp_path, *defect)
    assert path == "tokcore/queues/b.py"
    assert text.endswith("        if self:\n            return self.rows\n            raise Empty\n")


def test_namesakes(tmp_path):
    write(tmp_path, "tokcore/a.py", "def run():\n    start(1)\n    end()\n")
    write(tmp_path, "pipelines/work/a.py", "def run():\n    start(1)\n    end(2)\n")
    assert changed(tmp_path, "run", "end(2)", "end()")[0] == "pipelines/work/a.py"
    with refused("in more than one run .*write 'end/of/path.py: run'"):
        changed(tmp_path, "run", "start(1)", "start(2)")
    assert changed(tmp_path, "work/a.py: run", "start(1)", "start(2)")[0] == "pipelines/work/a.py"
    with refused("nothing is named ork/a.py: run"):
        changed(tmp_path, "ork/a.py: run", "start(1)", "start(2)")


def test_a_part_of_a_word_is_not_found(tmp_path):
    write(tmp_path, "tokcore/a.py", "def run():\n    restart(1)\n")
    with refused("does not hold 'start'"):
        changed(tmp_path, "run", "start", "end")


def test_all_that_holds_defects_is_known_to_the_index():
    """A file of defects that is not read would be a loss that nobody sees."""
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 400


def test_a_sample_takes_every_nth():
    assert run.choose(None, 1, 0) == list(DEFECTS)
    samples = [run.choose(None, 20, seed) for seed in range(20)]
    assert sorted(one.name for sample in samples for one in sample) == sorted(one.name for one in DEFECTS)
    assert run.choose([DEFECTS[3].name], 20, 0) == [DEFECTS[3]]


def test_verdicts_as_json_are_in_the_order_of_the_list():
    outcomes = [Outcome(DEFECTS[1], "a.py", "MISSED", 2.04), Outcome(DEFECTS[0], "b.py", "caught", 1.0)]
    text = run.as_json(outcomes)
    assert list(json.loads(text)) == [DEFECTS[0].name, DEFECTS[1].name]
    assert json.loads(text)[DEFECTS[1].name] == {"verdict": "MISSED", "seconds": 2.0}
    assert text.count("\n") == 4
