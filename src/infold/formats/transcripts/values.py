"""Tolerant access to decoded JSON, and the conversions that many transcript formats share.

Other people's records lack fields and change their types between versions; a reader here asks for what it wants
and gets an empty value instead of an error.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from infold.core.messages import Finish, ModelRef, TextPart, Usage
from infold.formats.injected import split_injected

FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "tool_calls": "tool-calls",
    "tool-calls": "tool-calls",
    "tool_use": "tool-calls",
    "toolUse": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content-filter",
    "content-filter": "content-filter",
    "refusal": "content-filter",
    "error": "error",
    "aborted": "abort",
    "abort": "abort",
}
PROVIDERS = {"claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai",
             "codex": "openai", "gemini": "google", "deepseek": "deepseek", "grok": "xai", "mistral": "mistral"}  # fmt: skip
"""Who makes the models whose names begin so; asked only where the record does not tell."""
MILLISECONDS_FROM = 100_000_000_000
"""A number of time above this is in milliseconds, below it in seconds (year 5138 and year 1973)."""


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def string(value: Any) -> str:
    """The value if it is a string, the digits of a number, else nothing."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def number(value: Any) -> float:
    """The value if it is a number of sensible size, else zero; NaN and infinity are zero too."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2.0**62) < value < 2.0**62:
        return 0.0
    return float(value)


def integer(value: Any) -> int:
    """The value as a whole number that is not negative, else zero."""
    return max(0, int(number(value)))


def exit_code(value: Any) -> int | None:
    """A command's exit status, if that is what the value is."""
    plausible = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31
    return int(value) if plausible else None


def dig(value: Any, *keys: str) -> Any:
    """The value found by walking down through objects, or None."""
    for key in keys:
        value = mapping(value).get(key)
    return value


def json_text(value: Any) -> str:
    """A tool's arguments as JSON text: a string is taken to be JSON already."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode({} if value is None else value).decode()
    except RecursionError:
        return '"nested too deep"'


def time_ms(value: Any) -> int | None:
    """A moment, given as ISO text, seconds or milliseconds, in milliseconds; text without a zone is UTC."""
    if isinstance(value, str):
        return _parse_time(value)
    found = number(value)
    if not 0 < found < MILLISECONDS_FROM * 1000:
        return None
    return int(found if found > MILLISECONDS_FROM else found * 1000)


def _parse_time(value: str) -> int | None:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def finish_of(value: Any) -> Finish | None:
    """Why a reply ended, in our words; nothing if the record says nothing."""
    return FINISHES.get(value, "other") if isinstance(value, str) and value else None


def model_ref(name: Any, provider: Any = "") -> ModelRef | None:
    """Which model; `provider/model` names are taken apart, known names get their maker."""
    full = string(name)
    if not full:
        return None
    maker, _, rest = full.partition("/")
    if not string(provider) and rest:
        return ModelRef(provider=maker, id=rest)
    known = next((who for start, who in PROVIDERS.items() if full.startswith(start)), "")
    return ModelRef(provider=string(provider) or known, id=full)


def anthropic_usage(value: Any) -> Usage | None:
    """Usage where the input excludes what the cache served."""
    if not mapping(value):
        return None
    return Usage(
        input=integer(value.get("input_tokens")),
        output=integer(value.get("output_tokens")),
        cache_read=integer(value.get("cache_read_input_tokens")),
        cache_write=integer(value.get("cache_creation_input_tokens")),
    )


def openai_usage(value: Any) -> Usage | None:
    """Usage where the prompt includes what the cache served, and the output includes reasoning."""
    if not mapping(value):
        return None
    prompt = integer(value.get("prompt_tokens", value.get("input_tokens")))
    output = integer(value.get("completion_tokens", value.get("output_tokens")))
    details = mapping(value.get("prompt_tokens_details") or value.get("input_tokens_details"))
    read = integer(
        details.get("cached_tokens")
        or value.get("cache_read_input_tokens")
        or value.get("cached_input_tokens")
        or value.get("prompt_cache_hit_tokens")
    )
    write = integer(details.get("cache_creation_tokens") or value.get("cache_creation_input_tokens"))
    told = value.get("completion_tokens_details") or value.get("output_tokens_details")
    reasoning = integer(mapping(told).get("reasoning_tokens") or value.get("reasoning_output_tokens"))
    return Usage(
        input=max(0, prompt - read - write),
        output=max(0, output - reasoning),
        reasoning=reasoning,
        cache_read=read,
        cache_write=write,
        total=integer(value.get("total_tokens")) or None,
    )


def user_parts(said: str, *, synthetic: bool = False) -> tuple[TextPart, ...]:
    """Text under the user's role, with what a harness put there marked as such."""
    if synthetic:
        return (TextPart(said, synthetic=True),)
    return tuple(TextPart(piece.text, synthetic=piece.injected) for piece in split_injected(said))
