"""English-like texts with the faults that rules about quality look for, always the same: by a seed."""

from __future__ import annotations

import random

_PLAIN = (
    "the of and to that have with be in it a for on was as at by this from they we she he you his her not are but had "
    "river station window morning letter music garden language history number question answer teacher computer"
)
_OTHERS = (
    "well-known don't isn't it's we're they'll John's U.S. e.g. Mr. Smith café naïve 3.14 2024 $5 10km 50% (perhaps) "
    'https://example.com/a "quoted" state-of-the-art and/or re-run'
)
_WORDS = (*_PLAIN.split() * 5, *_OTHERS.split())


def make_texts(num: int) -> list[str]:
    """Texts of 20 to 400 words in lines and paragraphs; most have one fault, from hardly any to far too much of it."""
    chance = random.Random(44)
    return [_spoil(chance, number, _write(chance)) for number in range(num)]


def _write(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randrange(2, 16)):
        line = []
        for _ in range(chance.randrange(1, 4)):
            words = [chance.choice(_WORDS) for _ in range(chance.randrange(4, 18))]
            line.append(" ".join(words).capitalize() + chance.choice([".", ".", ".", "!", "?", "", "...", '."']))
        lines.append(" ".join(line))
    return chance.choice(["\n", "\n\n"]).join(lines)


def _spoil(chance: random.Random, number: int, text: str) -> str:
    lines, words = text.splitlines(), text.split(" ")
    share = chance.random()
    match number % 12:
        case 0:
            return " ".join(words[: chance.randrange(20, 70)])
        case 1:
            return "\n".join(f"- {line}" if chance.random() < 0.8 + share / 4 else line for line in lines)
        case 2:
            return "\n".join(f"{line} ..." if chance.random() < share else line for line in lines)
        case 3:
            return " ".join(f"{word} #" if chance.random() < share / 6 else word for word in words)
        case 4:
            return "\n".join(lines + lines[: chance.randrange(len(lines))])
        case 5:
            return "\n\n".join(lines + [lines[0]] * chance.randrange(4))
        case 6:
            start = chance.randrange(max(1, len(words) - 12))
            return text + " " + " ".join(words[start : start + chance.randrange(2, 12)] * chance.randrange(1, 8))
        case 7:
            return " ".join(
                chance.choice(["=", "1.5", "//", "42"]) if chance.random() < share / 4 else w for w in words
            )
        case 8:
            rare = ("the", "be", "to", "of", "and", "that", "have", "with")
            return " ".join(word for word in words if word not in rare or chance.random() < 0.02)
        case 9:
            return text + chance.choice(
                ["", " A {curly} one.", "\nLorem ipsum dolor sit amet.", "\nUse of cookies is fine here."]
            )
        case 10:
            return "\n".join(line.rstrip('.!?"') if chance.random() < share else line for line in lines)
        case _:
            return text
