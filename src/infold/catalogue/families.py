"""Which tokeniser family a model belongs to, and how far its counts may exceed an o200k count.

The bounds serve to prove that a request fits: a view of n o200k tokens is taken to be at most n times `upper_bound`
of the model's own. They bound whole sessions, not every string: a single line of digits or rare script may exceed
them, which reported usage then corrects.

A bound is the larger of two figures: the highest ratio over 25 recorded agent sessions (English, Chinese, Japanese,
Korean) times `FRAMING`, and the highest ratio on one kind of content (logs, Chinese prose). Claude's is measured
against reported usage, which already includes framing.

Where a rejected request can be recovered, the expected count decides instead: the estimate times the family's factor.
Unknown models are expected to count as the estimate does; the one recorded model of family "other" does (0.99).
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from infold.catalogue.models import FamilyName
from infold.catalogue.spelling import spellings

FRAMING = 1.17
"""Reported input growth over the o200k count of what was added, highest of the Codex sessions (1.06 to 1.17): their
vocabulary is o200k itself, so this is role markers, call framing and hidden reminders.
"""


class Family(msgspec.Struct, frozen=True):
    """A tokeniser family: its bounds over o200k and the source of the upper one.

    `lower_bound` holds for ASCII text; no vocabulary measured has less than 0.85 of o200k's tokens there, over whole
    sessions. `factor` and `wide_factor` are the expected tokens per token of the estimate, for ASCII and other text
    (fitted by `benchmarks/family_factors.py`, rounded to one decimal, at least 1).
    """

    upper_bound: float
    origin: str
    lower_bound: float = 0.85
    factor: float = 1.0
    wide_factor: float = 1.0


FAMILIES: Mapping[FamilyName, Family] = MappingProxyType(
    {
        "o200k": Family(1.17, "reported usage of Codex sessions, 1.06 to 1.17"),
        "cl100k": Family(1.47, "Chinese prose 1.47; sessions up to 1.16 × framing = 1.36", wide_factor=1.4),
        "claude": Family(
            1.65,
            "reported usage of Claude Code sessions: 1.21 to 1.35 en, zh, ja; 1.65 ko",
            1.2,
            factor=1.2,
            wide_factor=1.6,
        ),
        "gemini": Family(
            1.45, "Gemma vocabulary, one agent transcript 1.24 × framing = 1.45", factor=1.1, wide_factor=1.2
        ),
        "llama3": Family(1.22, "sessions up to 1.04 × framing = 1.22; Chinese prose 1.04"),
        "qwen": Family(1.45, "service logs 1.45; sessions up to 1.19 × framing = 1.40"),
        "deepseek": Family(1.38, "sessions up to 1.18 × framing = 1.38; indented JSON 1.10", factor=1.1),
        "mistral": Family(
            1.48, "service logs 1.48; sessions up to 1.25 × framing = 1.46 (vocabulary v3)", factor=1.1, wide_factor=1.3
        ),
        "glm": Family(1.31, "sessions up to 1.12 × framing = 1.31"),
        "kimi": Family(1.26, "sessions up to 1.07 × framing = 1.26; Chinese prose 0.75"),
        "grok": Family(1.96, "no public vocabulary: as for other"),
        "other": Family(1.96, "widest vocabulary measured, Llama 2: sessions up to 1.67 × framing = 1.96"),
    }
)

# The first rule that matches wins; they are searched in the last part of a name, lower case, dots as hyphens.
_RULES: tuple[tuple[str, FamilyName], ...] = (
    (r"distill-llama|llama-?v?3", "llama3"),
    (r"distill-qwen|qwen|qwq|qvq", "qwen"),
    (r"claude", "claude"),
    (r"gemini|gemma", "gemini"),
    (r"gpt-?oss|gpt-4o|gpt-4-[15](?!\d)|gpt-[5-9]|chatgpt|chat-latest|codex|daybreak|gpt-audio", "o200k"),
    (r"^(ft:)?o[134](-|$)|computer-use", "o200k"),
    (r"gpt-4|gpt-3-?5", "cl100k"),
    (r"deepseek", "deepseek"),
    # Old models with the 32k vocabularies v1 and v2, which count like Llama 2.
    (r"mixtral|mistral-7b|mistral-tiny|codestral-mamba|mistral-medium-2312", "other"),
    (r"mistral|ministral|codestral|devstral|magistral|pixtral|voxtral|leanstral", "mistral"),
    (r"(^|-)glm", "glm"),
    (r"kimi|moonshot", "kimi"),
    (r"grok", "grok"),
)

_BINDING = frozenset(
    {
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-haiku-5-5",
        "claude-mythos-5-1",
        "claude-mythos-5-2",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
    }
)
"""Anthropic, "Prefix checks on thinking blocks", November 2026; the same on Bedrock and Vertex."""


def family_of(model: str) -> FamilyName:
    """Return the tokeniser family of a model name; "other", which has the widest bound, if no rule matches."""
    last = model.rsplit("/", 1)[-1].lower().replace(".", "-")
    return next((family for pattern, family in _RULES if re.search(pattern, last)), "other")


def binds_thinking(model: str) -> bool:
    """Return whether a model accepts its thinking blocks only behind the messages they were created behind, as
    documented.

    Other models may do so too; their rejections show it.
    """
    return any(spelling.key in _BINDING for spelling in spellings(model))


def lower_bound(family: FamilyName) -> float:
    """Return the fewest tokens of this family per o200k token of ASCII text, over a whole session."""
    return FAMILIES[family].lower_bound


def upper_bound(family: FamilyName) -> float:
    """Return the most tokens of this family per o200k token, over a whole session."""
    return FAMILIES[family].upper_bound
