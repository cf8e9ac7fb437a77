"""Rules of [mask] in a build file."""

from __future__ import annotations

from collections.abc import Set

from tokcore.errors import ConfigError
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore.text.regex_split import compile_pattern
from tokcore_schemas.build_tables import BuildConfig
from tokcore_schemas.config_reader import BuildFile, show_value
from tokcore_schemas.document import is_valid_lang
from tokcore_schemas.plan import DEFAULT_SPAN_KIND, MaskRule


def check_mask(config: BuildConfig, file: BuildFile, declares_special: bool) -> None:
    """Raise ConfigError for the first broken rule of [mask]. declares_special: whether tokens come from [special]."""
    mask, rule = config.mask, config.mask_rule
    if rule is None:
        if file.content.get("mask") is not None:
            raise file.error(
                ("mask",),
                'finds nothing: add, for example, presets = ["email"], or regex, or spans; or remove the table.',
            )
        return
    if config.count.mask:
        raise file.error(
            ("count", "mask"),
            "and [mask] exclude each other: [mask] holds for counts and shards. Add these kinds to mask.presets, or "
            "remove one of the two.",
        )
    for kind, pattern in mask.regex.items():
        key = ("mask", "regex", kind)
        if kind in MASK_PRESETS or not is_valid_lang(kind):
            found = "is a preset" if kind in MASK_PRESETS else "is no name: expected letters, digits and . _ + -"
            raise file.error(key, f"{found}. Call what it finds otherwise.")
        try:
            compile_pattern(pattern)
        except ConfigError as error:
            raise file.error(key, f"= {show_value(pattern)}: {error.__cause__ or error}.") from error
    kinds = {*rule.presets, *mask.regex}
    for name in ("remove", "drop"):
        for kind in getattr(mask, name):
            if kind not in kinds and not rule.spans:  # whose kinds no build file names
                raise file.error(("mask", name), f"= {show_value(kind)}: {_list_kinds(kinds)}.")
    if (both := sorted({*mask.remove} & {*mask.drop})) != []:
        raise file.error(("mask", "remove"), f"and drop both have {show_value(both[0])}: remove one of them.")
    token = _find_spelled_token(config, rule) if declares_special else None
    if token is not None and config.encode.special_text != "special":
        raise file.error(
            ("mask", "replacement"),
            f"spells the special token {show_value(token)}, and encode.special_text is {config.encode.special_text}: "
            f'only with special_text = "special" does a text become that token.',
        )


def _list_kinds(kinds: Set[str]) -> str:
    return f"no such kind is masked; there {'is' if len(kinds) == 1 else 'are'} {', '.join(sorted(kinds))}"


def _find_spelled_token(config: BuildConfig, rule: MaskRule) -> str | None:
    """A token of [special] that a replacement spells."""
    spelled = [rule.spell(kind) for kind in (*rule.presets, *dict(rule.regex), DEFAULT_SPAN_KIND)]
    return next((token.text for token in config.special for text in spelled if token.text in text), None)
