"""Choose how a model's tokens are counted: by an exact tokeniser if one is installed and known, else by the estimate.

Exact counts need the `tokens` extra (splintr-rs, whose vocabularies are inside the wheel). A tokeniser is trusted only after
it has encoded a known text correctly. The margin says how far the provider's own count may still exceed ours.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Protocol

import msgspec
from msgspec import Struct

from infold.catalogue import FAMILIES, FamilyName, lower_bound, upper_bound
from infold.core.budget import LEAST_ESTIMATED
from infold.core.messages import Message, Overhead, SystemMessage, ToolSchema
from infold.core.policy import Ruler
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, Calibration, cache_by_text, measure, measure_message, remembered
from infold.errors import UsageError
from infold.formats.tools import definitions_in

EXACT_MARGIN = 1.05
"""What providers add around messages, once the text is counted exactly."""


LEAST_EXACT = Calibration(prose=0.8, material=0.8, wide=0.8)
"""The least part of an exact count that a provider's count can be: it may strip text and write arguments again, and a family's
next vocabulary saves a little more."""


LEAST_OF_ESTIMATE = 0.7
"""How far the estimate of text in ASCII runs high at most: French, of all the text tried."""


VOCABULARIES: Mapping[FamilyName, str] = {
    "o200k": "o200k_base",
    "cl100k": "cl100k_base",
    "llama3": "llama3",
    "qwen": "qwen3",
    "deepseek": "deepseek_v3",
    "mistral": "mistral_v3",
    "glm": "glm4",
    "kimi": "kimi_k2",
}
"""Families whose vocabulary is public, by the name the tokeniser package gives it."""


_LOADING, _LOADED = Lock(), set[str]()
LONGEST_LOAD_SECONDS = 20.0


_PROBE = "tiktoken is great!"


_KNOWN_IDS = {"o200k_base": [83, 8251, 2488, 382, 2212, 0], "cl100k_base": [83, 1609, 5963, 374, 2294, 0]}
"""A text whose tokens are published, so that a tokeniser that silently goes wrong is noticed."""


class Counting(Struct, frozen=True):
    """How text is counted, how far a provider's count may exceed that, and whether it is a tokeniser's own count.

    `wide_margin` is the margin of text outside ASCII; 0 where it is the same.
    """

    ruler: Ruler
    margin: float
    is_exact: bool
    wide_margin: float = 0.0


class Tokeniser(Protocol):
    """What is asked of a tokeniser package."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the ids of a text's tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these tokens."""
        ...


def counting_for(family: FamilyName, *, exact: bool = True, scaled: bool = True) -> Counting:
    """Return the best way there is here to count for a family of models.

    `exact` off keeps to the estimate; `scaled` off leaves it as it is, in o200k tokens, for a policy with a rule of its own.
    """
    # Threads that need a vocabulary at once would each load it, for 45 MB and a second of CPU: one loads it, the others wait. The
    # wait is bounded for a child that was forked while another thread held the lock.
    locked = family not in _LOADED and _LOADING.acquire(timeout=LONGEST_LOAD_SECONDS)
    try:
        counter = _exact_counter(VOCABULARIES.get(family, "")) if exact else None
        _LOADED.update((family,) if exact else ())
    finally:
        if locked:
            _LOADING.release()
    if counter is not None:
        return Counting(counter, EXACT_MARGIN, is_exact=True)
    known, most = FAMILIES[family], upper_bound(family)
    if not scaled or (known.factor, known.wide_factor) == (1.0, 1.0):
        return Counting("features", most, is_exact=False)
    scale = _scaled_estimate(known.factor, known.wide_factor)
    return Counting(scale, most / known.factor, is_exact=False, wide_margin=most / known.wide_factor)


def least_for(family: FamilyName | None, ruler: Ruler) -> Calibration:
    """Return the least part of a size that a provider's count of it can be; lower reports are implausible.

    `family` is `None` if no model was named: then the ruler is a guess too.
    """
    if family is None:
        return LEAST_ESTIMATED
    known = FAMILIES[family]
    is_scaled = ruler is _scaled_estimate(known.factor, known.wide_factor)
    if not isinstance(ruler, str) and not is_scaled:
        return LEAST_EXACT
    factor, wide_factor = (known.factor, known.wide_factor) if is_scaled else (1.0, 1.0)
    least = lower_bound(family) * LEAST_OF_ESTIMATE / factor
    return Calibration(prose=least, material=least, wide=LEAST_ESTIMATED.wide / wide_factor)


def is_trustworthy(tokeniser: Tokeniser, vocabulary: str) -> bool:
    """Whether a tokeniser reads a known text as it must; where its ids are not published, as text that comes back whole."""
    ids = list(tokeniser.encode(_PROBE))
    known = _KNOWN_IDS.get(vocabulary)
    if known is not None:
        return ids == known
    return len(ids) < len(_PROBE) // 2 and tokeniser.decode(ids).strip() == _PROBE


def split_preamble(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Divide a list into the system messages that open it, which are always sent, and the rest."""
    count = next((n for n, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    return messages[:count], messages[count:]


def count_overhead(preamble: tuple[Message, ...], system: object, tools: object, ruler: Ruler) -> Overhead:
    """Count what every request sends besides the conversation: opening system messages, system prompt, tool schemas."""
    inside = sum(MESSAGE_OVERHEAD_TOKENS + sum(measure_message(message, ruler)) for message in preamble)
    system_tokens, tools_tokens = (measure(extra_text(extra), ruler) if extra else 0 for extra in (system, tools))
    return Overhead(inside + system_tokens, tools_tokens, tool_schemas(tools, ruler) if tools else ())


def tool_schemas(tools: object, ruler: Ruler) -> tuple[ToolSchema, ...]:
    """Return the tokens of each tool that a request offers, in its order; empty if they cannot be read.

    `tools` are of any shape: a list, its JSON text, or SDK objects.
    """
    if not tools:
        return ()
    try:
        items = msgspec.json.decode(extra_text(tools))
    except (msgspec.DecodeError, RecursionError):  # tools written as prose
        return ()
    return tuple(ToolSchema(tool.name, measure(extra_text(tool.definition), ruler)) for tool in definitions_in(items))


def extra_text(value: object) -> str:
    """Return a system prompt or tools as text; raise `UsageError` if they cannot be read as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, enc_hook=_dump_model).decode()
    except (TypeError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(
            f"system or tools cannot be read as JSON ({error}); give text, dicts or SDK objects"
        ) from error


def countable(value: object) -> object:
    """Return a system prompt or tools as they are, with text in place of what cannot be read as JSON.

    For a framework's own objects, which it may send in a way that infold does not know: they are counted by what they print.
    """
    if not value:
        return value
    try:
        extra_text(value)
    except UsageError:
        if isinstance(value, list | tuple) and len(value) > 1:
            return [countable(one) for one in value]
        return print_safely(value)
    return value


def print_safely(value: object) -> str:
    """Return what an object prints, or what it is if it cannot be printed."""
    try:
        return str(value)
    except Exception as error:  # foreign code; what cannot be printed is not sent by any provider's SDK
        return f"{type(value).__name__}: {type(error).__name__}"


def _dump_model(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a {type(value).__name__}")
    return dump(mode="json", exclude_none=True)


@cache
def _scaled_estimate(factor: float, wide_factor: float) -> Callable[[str], int]:
    """The estimate in the tokens that a family is expected to count; the same object for the same factors."""

    def estimate(text: str) -> int:
        reading = remembered(text)
        return round(reading.tokens * (wide_factor if reading.is_wide else factor))

    return estimate


@cache
def _exact_counter(vocabulary: str) -> Callable[[str], int] | None:
    """A tokeniser's count for a vocabulary, or none where the package, the vocabulary or its right reading is missing."""
    if not vocabulary:
        return None
    try:
        tokeniser: Tokeniser = import_module("splintr").Tokenizer.from_pretrained(vocabulary)
    except (ImportError, ValueError):
        return None
    if not is_trustworthy(tokeniser, vocabulary):
        return None
    return cache_by_text(lambda text: len(tokeniser.encode(text)))
