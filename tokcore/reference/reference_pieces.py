"""SentencePiece's learners in plain Python: slow, obvious, and the oracle of the tests.

tokcore.reference.reference_sentencepiece has the encoders.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.count.pretoken_rows import Counts
from tokcore.learn.piece_rules import PieceTableRules
from tokcore.reference.arrays import Ids, list_texts
from tokcore.text.sentencepiece_tables import INHERITED, load_scripts
from tokcore.text.texts import Bytes, Offsets, Texts

CodePoints = npt.NDArray[np.uint32]
Words = tuple[Bytes, Offsets, Counts]  # pre-tokens as tokcore.text.texts.Texts has them, and how often each occurs

SPACE, BOUNDARY, KEPT_BY_SENTENCEPIECE = "\u2581", "\x1f", "\u2585"
UNIT, SCORE_UNIT = 2**32, 2**28  # of expected numbers, and of scores
UNKNOWN = ""


def unpack_rules(packed: tuple[Any, ...]) -> PieceTableRules:
    """The rules out of what the native module is given; the tables of scripts among them are read from their file."""
    data, offsets, _, _, *rules = packed
    return PieceTableRules(Texts(data, offsets), *rules)


def read_words(table: Words, rules: PieceTableRules) -> tuple[Counter[str], Counter[str], list[str], int]:
    """(runs of characters, the count of each character, the characters by count, how much divides runs)."""
    reserved = sorted((text.decode() for text in list_texts(*rules.reserved)), key=len)
    words: Counter[str] = Counter()
    data, offsets, counts = table
    for row, count in zip(list_texts(data, offsets), counts.tolist(), strict=True):
        try:
            word = row.decode()
        except UnicodeDecodeError:
            continue
        if KEPT_BY_SENTENCEPIECE not in word and count:
            words[divide(word, reserved)] += count
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            if character not in "\0 ":
                characters[character] += count
    chosen, covered = [], 0
    for character, count in sorted(characters.items(), key=lambda one: (-one[1], one[0])):
        if np.float32(covered / characters.total()) >= np.float32(rules.coverage):
            break
        covered += count
        if character != BOUNDARY:
            chosen.append(character)
    runs: Counter[str] = Counter()
    for word, count in words.items():
        for run in "".join(c if c in chosen else BOUNDARY for c in word).split(BOUNDARY):
            runs[run] += count
    del runs[""]
    dividers = sum(count * (len(word) - sum(c in chosen for c in word)) for word, count in words.items())
    return runs, characters, chosen, dividers


def divide(word: str, reserved: Sequence[str]) -> str:
    """The word with a boundary for each reserved text; these are given in the order of length."""
    out = ""
    while word:
        found = [text for text in reserved if word.startswith(text)]
        out += BOUNDARY if found else word[0]
        word = word[len(found[-1]) if found else 1 :]
    return out


def allows(piece: str, rules: PieceTableRules) -> bool:
    """Whether SentencePiece makes such a piece."""
    if len(piece) > rules.max_length:
        return False
    any_script = previous = -1
    for i, c in enumerate(piece):
        if c == SPACE:
            if i > 0 and (rules.split_by_whitespace or i + 1 == len(piece)):
                return False
            continue
        is_digit = c in "0123456789０１２３４５６７８９"
        script = find_script(c)
        script = previous if script == INHERITED else script
        script = any_script if is_digit and not rules.split_by_number else script
        if is_digit and rules.split_digits and len(piece) > 1:
            return False
        if rules.split_by_unicode_script and script != previous and any_script not in (script, previous):
            return False
        previous = script
    return True


def find_script(character: str) -> int:
    """The number of a character's script."""
    starts, numbers = load_scripts()
    return int(numbers[bisect.bisect(starts.tolist(), ord(character)) - 1])


def learn_piece_merges(
    table: Words, packed_rules: tuple[Any, ...], num_tokens: int, min_count: int, threads: int, merges_done: Offsets
) -> tuple[CodePoints, CodePoints, Ids, Ids, Counts]:
    """As tokcore.kernel.learn_piece_merges."""
    rules = unpack_rules(packed_rules)
    runs, _, chosen, _ = read_words(table, rules)
    words = {run: [*run] for run in runs}
    tokens = sorted(chosen)
    merges: list[tuple[str, str, int]] = []
    while len(tokens) < num_tokens:
        pairs: Counter[tuple[str, str]] = Counter()
        for run, parts in words.items():
            for pair in pairwise(parts):
                pairs[pair] += runs[run]
        allowed = [pair for pair in pairs if pairs[pair] >= max(1, min_count) and allows("".join(pair), rules)]
        if not allowed:
            break
        left, right = min(allowed, key=lambda pair: (-pairs[pair], len("".join(pair)), "".join(pair)))
        merges.append((left, right, pairs[left, right]))
        tokens.append(left + right)
        words = {run: merge(parts, left, right) for run, parts in words.items()}
        merges_done[0] += 1
    number = {token: i for i, token in enumerate(tokens)}
    return (
        np.array([*map(ord, sorted(chosen))], np.uint32),
        np.array([number[c] for c in chosen], np.uint32),
        np.array([number[left] for left, _, _ in merges], np.int32),
        np.array([number[right] for _, right, _ in merges], np.int32),
        np.array([count for _, _, count in merges], np.uint64),
    )


def merge(parts: list[str], left: str, right: str) -> list[str]:
    """The parts with each such pair joined, from left to right.

    >>> merge(["a", "a", "a"], "a", "a")
    ['aa', 'a']
    """
    out: list[str] = []
    i = 0
    while i < len(parts):
        size = 2 if parts[i : i + 2] == [left, right] else 1
        out.append("".join(parts[i : i + size]))
        i += size
    return out


# ------------------------------------------------------------------------------------------------------------- unigram


def find_seeds(runs: Counter[str], rules: PieceTableRules, min_count: int, num_seeds: int) -> list[tuple[str, int]]:
    """(text, count) of what occurs at least min_count times and does not always go on with the same character."""
    found: Counter[str] = Counter()
    followed: dict[str, set[str]] = defaultdict(set)
    for run, count in runs.items():
        for i in range(len(run)):
            for j in range(i + 2, min(len(run), i + rules.max_length) + 1):
                found[run[i:j]] += count
                followed[run[i:j]].add(run[j : j + 1])
    seeds = [
        (text, count)
        for text, count in found.items()
        if count >= min_count and (len(followed[text]) > 1 or followed[text] == {""}) and allows(text, rules)
    ]
    return sorted(seeds, key=lambda seed: (-seed[1] * len(seed[0]), seed[0]))[:num_seeds]


class Lattice:
    """Scores of pieces, and what a word's cuts into them are."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores = scores
        self.unknown = min(scores.values(), default=0.0) - 10
        self.longest = max(map(len, scores), default=1)

    def list_pieces(self, word: str, start: int) -> Iterator[tuple[int, str, float]]:
        """(end, piece, score) of each that begins there; the unknown one only if the character is none."""
        for end in range(start + 1, min(len(word), start + self.longest) + 1):
            if word[start:end] in self.scores:
                yield end, word[start:end], self.scores[word[start:end]]
            elif end == start + 1:
                yield end, UNKNOWN, self.unknown

    def list_shares(self, word: str) -> list[tuple[str, float]]:
        """(piece, how often it is expected) for each place where it may stand."""
        edges = [(i, *edge) for i in range(len(word)) for edge in self.list_pieces(word, i)]
        before, after = [1.0] + [0.0] * len(word), [0.0] * len(word) + [1.0]
        for start, end, _, score in edges:
            before[end] += before[start] * math.exp(score)
        for start, end, _, score in reversed(edges):
            after[start] += math.exp(score) * after[end]
        return [
            (piece, before[start] * math.exp(score) * after[end] / before[-1]) for start, end, piece, score in edges
        ]

    def find_best(
        self, word: str, left_out: str | None = None, round_off: Callable[[float], float] = lambda score: score
    ) -> tuple[float, list[str]]:
        """(score, pieces) of the best cut; of two with one score, that whose last piece begins earlier."""
        best: list[tuple[float, list[str]] | None] = [(0.0, [])] + [None] * len(word)
        for start in range(len(word)):
            at_start = best[start]
            assert at_start is not None
            for end, piece, score in self.list_pieces(word, start):
                so_far = best[end]
                total = round_off(at_start[0] + round_off(score))
                if piece != left_out and (so_far is None or total > so_far[0]):
                    best[end] = (total, [*at_start[1], piece])
        found = best[len(word)]
        assert found is not None
        return found


def learn_unigram(
    table: Words,
    packed_rules: tuple[Any, ...],
    num_pieces: int,
    num_before_last_cut: int,
    num_seeds: int,
    scale: float,
    min_seed_count: int,
    threads: int,
    rounds_done: Offsets,
) -> tuple[CodePoints, Offsets, npt.NDArray[np.float32]]:
    """As tokcore.kernel.learn_unigram."""
    rules = unpack_rules(packed_rules)
    runs, character_counts, chosen, dividers = read_words(table, rules)
    seeds = find_seeds(runs, rules, min_seed_count, num_seeds)
    weights = {c: character_counts[c] for c in chosen} | {text: count * len(text) for text, count in seeds}
    total = sum(weights.values())
    scores = {piece: math.log(weight) - math.log(total) for piece, weight in weights.items()}
    while runs:
        for _ in range(2):
            scores = estimate(runs, scores, scale, dividers)
        num_before = len(scores)
        scores = cut(runs, scores, num_before_last_cut, dividers)
        if len(scores) <= num_before_last_cut or len(scores) == num_before:
            break
    lattice = Lattice(scores)

    def round_to_single(score: float) -> float:
        return float(np.float32(score))

    scores = {
        piece: score
        for piece, score in scores.items()
        if len(piece) == 1 or lattice.find_best(piece, piece, round_to_single)[0] <= round_to_single(score)
    }
    return finish(scores, chosen, num_pieces)


def estimate(runs: Counter[str], scores: dict[str, float], scale: float, dividers: int) -> dict[str, float]:
    """The scores after one round: the expected number of each piece decides; those below a half drop out."""
    if not scores:
        return {}
    lattice = Lattice(scores)
    expected: Counter[str] = Counter()
    for run, count in runs.items():
        for piece, share in lattice.list_shares(run):
            expected[piece] += count * int(share * UNIT + 0.5)
    # What is unknown counts as the first piece, as in SentencePiece.
    expected[next(iter(scores))] += expected.pop(UNKNOWN, 0) + dividers * UNIT
    numbers = {piece: expected[piece] / (scale * UNIT) for piece in scores}
    kept = {piece: number for piece, number in numbers.items() if number >= 0.5}
    if not kept:
        return {}
    log_sum = compute_digamma(sum(expected[piece] for piece in kept) / (scale * UNIT))
    return {piece: compute_digamma(number) - log_sum for piece, number in kept.items()}


def compute_digamma(x: float) -> float:
    """The derivative of the logarithm of the gamma function."""
    shifted = 0.0
    while x < 16:
        shifted -= 1 / x
        x += 1
    terms = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)
    return shifted + math.log(x) - 0.5 / x - sum(term / x ** (2 * n + 2) for n, term in enumerate(terms))


def cut(runs: Counter[str], scores: dict[str, float], least: int, dividers: int) -> dict[str, float]:
    """Keep three quarters of the pieces, but at least `least`: characters, and what the text would miss most."""
    if not scores:
        return {}
    fixed = {piece: math.floor(score * SCORE_UNIT + 0.5) for piece, score in scores.items()}
    lattice = Lattice({piece: score / SCORE_UNIT for piece, score in fixed.items()})
    used: Counter[str] = Counter()
    for run, count in runs.items():
        for piece in lattice.find_best(run)[1]:
            used[piece] += count
    first = next(iter(scores))
    used[first] += used.pop(UNKNOWN, 0) + dividers
    total = used.total()
    kept, losses = [], {}
    for piece in scores:
        if not used[piece]:
            continue
        if len(piece) == 1:
            kept.append(piece)
            continue
        score, others = lattice.find_best(piece, piece)
        if score <= lattice.scores[piece]:
            own = used[piece]
            log_sum = math.log(total + own * (len(others) - 1))
            log_others = sum(math.log(used[other or first] + own) - log_sum for other in others)
            losses[piece] = own / total * (math.log(own) - math.log(total) - log_others)
    wanted = max(least, len(scores) * 3 // 4)
    kept += sorted(losses, key=lambda piece: -losses[piece])[: max(0, wanted - len(kept))]
    return {piece: scores[piece] for piece in kept}


def finish(
    scores: dict[str, float], chosen: Sequence[str], num_pieces: int
) -> tuple[CodePoints, Offsets, npt.NDArray[np.float32]]:
    """All characters, those that dropped out with scores from the least one up, and the best of the others."""
    least, above = np.float32(min(scores.values(), default=0.0)), np.float32(0)
    final: dict[str, np.float32] = {}
    for character in chosen:
        if character in scores:
            final[character] = np.float32(scores[character])
        else:
            final[character] = least + above
            above += np.float32(0.0001)
    others = sorted((-np.float32(score), piece) for piece, score in scores.items() if piece not in final)
    final |= {piece: -score for score, piece in others[: max(0, num_pieces - len(final))]}
    pieces = sorted(final, key=lambda piece: (-final[piece], piece))
    return (
        np.array([ord(c) for piece in pieces for c in piece], np.uint32),
        np.cumsum([0, *map(len, pieces)], dtype=np.int64),
        np.array([final[piece] for piece in pieces], np.float32),
    )
