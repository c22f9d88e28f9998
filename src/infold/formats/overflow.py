"""Recognise a provider's report that a request was too large, or that it does not accept the reasoning in it.

Providers have no common code for it; the table lists the phrases they are known to use, and a second pass reads the
prompt's size and the limit if the text gives them. A rate limit is not an overflow, even if its text mentions tokens.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct


class Overflow(Struct, frozen=True):
    """A request reported as too large: by which provider, and the numbers in its report.

    `bytes_limit`: the request's bytes were refused, so its tokens may have fitted. `bound_thinking`: its size was not the
    problem, but thinking that is bound to another conversation, or reasoning that its provider cannot read; without that, the
    same request may be sent again. `native`: the problem was a summary that the provider itself wrote. `binds`: the report says
    that the model binds thinking, which other sessions may learn.
    """

    family: str
    prompt_tokens: int | None = None
    limit_tokens: int | None = None
    bytes_limit: bool = False
    bound_thinking: bool = False
    native: bool = False
    binds: bool = False


PHRASES: tuple[tuple[str, str], ...] = (
    ("llama.cpp", r"exceed_context_size_error|exceeds the available context size"),
    ("anthropic", r"prompt is too long"),
    ("anthropic", r"input length and `?max_tokens`? exceed context limit"),
    ("bedrock", r"input is too long for requested model|input tokens exceeds maximum length"),
    ("gemini", r"input token count\b.{0,80}exceeds the maximum"),
    ("xai", r"maximum prompt length is \d"),
    ("copilot", r"(?:prompt|token count|tokens)\b.{0,40}exceeds the limit of \d"),
    ("vercel", r"tokens in request more than max tokens allowed"),
    ("mistral", r"too large for model with \d[\d,_]* maximum context length"),
    ("sglang", r"is longer than the model'?s context length"),
    ("vllm", r"context length is only \d"),
    ("vllm", r"exceeds (?:the )?maximum allowed input length"),
    ("vllm", r"input length\b.{0,60}exceeds.{0,40}context length"),
    ("tgi", r"inputs`? tokens \+ `?max_new_tokens`? must be <="),
    ("openai", r"exceeds? (?:the |this |its )?(?:model'?s )?context window"),
    ("openai", r"exceeds? (?:the |this )?(?:model'?s )?maximum context length"),
    ("openai", r"input tokens exceed the configured limit"),
    ("openai", r"maximum context length (?:is|of) \d"),
    ("openai", r"context_length_exceeded|context length exceeded"),
    ("groq", r"reduce the length of the (?:messages|prompt|input)"),
    ("lm-studio", r"greater than the context length"),
    ("ollama", r"prompt too long|exceeded (?:max )?context length"),
    ("local", r"prompt has \d[\d,_]* tokens,? but the configured context size is \d"),
    ("minimax", r"context window exceeds limit"),
    ("kimi", r"exceeded (?:the )?model token limit"),
    ("z.ai", r"model_context_window_exceeded|prompt exceeds max length"),
    ("cohere", r"number of tokens in the prompt cannot exceed"),
    ("dashscope", r"range of input length should be"),
    ("unknown", r"token limit exceeded|too many (?:input )?tokens"),
)
"""Provider and phrase; the first match wins, so particular phrases stand before general ones."""

BYTE_PHRASES: tuple[tuple[str, str], ...] = (
    ("anthropic", r"request_too_large|exceeds the maximum (?:allowed )?(?:number of bytes|size)"),
    ("openai", r"string_above_max_length|string too long\. expected a string with maximum length"),
    ("bedrock", r"too many total text bytes"),
    ("http", r"request entity too large|payload too large|content too large|request body too large"),
)

TOO_FAST = re.compile(
    r"throttl|rate.?limit|too many requests|service.?unavailable|per.?min(?:ute)?\b|per.?day\b|\btpm\b|please wait"
    r"|quota|resource.?exhausted",
    re.IGNORECASE,
)
"""Refusals for the rate of requests; these outweigh every phrase above but the exact codes."""

MOST_NESTED = 8
"""Objects inside one another that may describe one error."""

_N = r"(\d[\d,_]{0,20})"
PROMPT_SIZES = (
    rf"\({_N} (?:of text |tokens )?in the (?:messages|prompt|input)",
    rf"\({_N} of text input",
    rf"n_prompt_tokens\W+{_N}",
    rf"(?:request|input|prompt) \({_N} tokens",
    rf"token count (?:of )?\(?{_N}",
    rf"(?:resulted in|contains|contained|prompt has|request has)(?: at least)? {_N}",
    rf"too long: {_N}",
    rf"exceed context limit: {_N}",
    rf"input length (?:of )?\(?{_N}",
    rf"requested:? (?:about |a total of )?{_N}(?![\d,_]* output)",
    rf"(?:received|given:?) {_N}",
)
LIMIT_SIZES = (
    rf"n_ctx\W+{_N}",
    rf"context (?:size|length) \({_N}",
    rf"{_N} maximum context length",
    rf"context (?:length|size|window)(?: is| of|:)(?: only)? \(?{_N}",
    rf"context length \(?{_N}",
    rf"maximum prompt length is {_N}",
    rf"tokens allowed:? \(?{_N}",
    rf"(?:limit|length) of {_N}",
    rf"> {_N}",
    rf"(?:token limit|cannot exceed|must be <=):? {_N}",
    rf"input length should be \[\d+, {_N}",
)
_BINDING = re.compile(r"bound to a different conversation", re.IGNORECASE)
"""How Anthropic refuses thinking whose prefix is not the one it was created behind."""

_NATIVE = re.compile(r"`?compaction`?.{0,80}\b(?:blocks?|items?|signature|beta|invalid|not supported)\b", re.IGNORECASE)
"""How a provider may refuse a compaction block or item; no document states the words."""

_REFUSED_REASONING = (
    (
        "anthropic",
        r"`?thinking`? (?:or `?redacted_thinking`? )?blocks in the latest assistant message cannot be modified",
    ),
    ("openai", r"invalid_encrypted_content|encrypted content .{0,200}could not be verified"),
)
"""Other refusals after which a request without its reasoning may be accepted; OpenAI's comes after a change of the account."""

EXACT_CODES = frozenset({"context_length_exceeded", "model_context_window_exceeded", "exceed_context_size_error"})
MOST_TEXT = 20_000
"""Characters of an error that are read; no provider's report is longer."""


def recognise(status: int | None, body: bytes | str | Mapping[str, Any] | None) -> Overflow | None:
    """Return the overflow that a failed request reports, `None` if it failed for another reason.

    `status` is the HTTP status, `None` for an exception's text or an event of a stream. In a stream that began well only
    `error` counts, since a model may write about errors too.
    """
    error = _error_of(status, _parse(body))
    text = "\n".join(_texts(error))[:MOST_TEXT]
    has_code = any(code in text for code in EXACT_CODES)
    if not has_code and (status == 429 or TOO_FAST.search(text)):
        return None
    if _BINDING.search(text):
        return Overflow("anthropic", bound_thinking=True, binds=True)
    found = _by_phrase(text)
    if found is None and status in (None, 400, 422) and _NATIVE.search(text):
        return Overflow("native", native=True)
    if found is None and (status == 413 or _is_bodiless(status, text)):
        return Overflow("http", bytes_limit=status == 413 or text.startswith("413"))
    return found


def _by_phrase(text: str) -> Overflow | None:
    for family, phrase in _COMPILED_REASONING:
        if phrase.search(text):
            return Overflow(family, bound_thinking=True)
    for family, phrase in _COMPILED:
        if phrase.search(text):
            return Overflow(family, _number(_PROMPT_SIZES, text), _number(_LIMIT_SIZES, text))
    for family, phrase in _COMPILED_BYTES:
        if phrase.search(text):
            return Overflow(family, bytes_limit=True)
    return None


def _is_bodiless(status: int | None, text: str) -> bool:
    """Return whether a refusal is a bare status, as some services send for a large request."""
    return (status == 400 and not text.strip()) or re.match(r"4(?:00|13)\b.{0,20}\(no body\)", text) is not None


def _compile(phrases: tuple[tuple[str, str], ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((family, re.compile(phrase, re.IGNORECASE)) for family, phrase in phrases)


_COMPILED, _COMPILED_BYTES, _COMPILED_REASONING = map(_compile, (PHRASES, BYTE_PHRASES, _REFUSED_REASONING))
_PROMPT_SIZES = tuple(re.compile(size, re.IGNORECASE) for size in PROMPT_SIZES)
_LIMIT_SIZES = tuple(re.compile(size, re.IGNORECASE) for size in LIMIT_SIZES)


def _number(sizes: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for size in sizes:
        found = size.search(text)
        if found:
            return int(re.sub(r"\D", "", found[1])[:12])
    return None


# From a body to the text of its error.


def errors_in(body: object) -> list[Mapping[str, Any]]:
    """Return the objects of a body that may describe an error, the innermost first."""
    found: list[Mapping[str, Any]] = []
    while isinstance(body, Mapping) and len(found) < MOST_NESTED:
        found.insert(0, body)
        body = body.get("error") or body.get("response")
    return found


def message_in(body: object) -> str:
    """Return what the body of a refusal says, parsed or not; empty where it says nothing."""
    body = _parse(body)
    if isinstance(body, str):
        return body
    fields = [error.get(field) for error in errors_in(body) for field in ("message", "error", "detail", "msg")]
    return next((text for text in fields if isinstance(text, str) and text.strip()), "")


def _parse(body: object) -> object:
    if isinstance(body, bytes | bytearray | memoryview):
        body = bytes(body).decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    data = [line[5:] for line in body.splitlines() if line.startswith("data:")]
    try:
        return msgspec.json.decode("".join(data) or body)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return body


def _error_of(status: int | None, body: object) -> object:
    """Return the part of a body that reports an error; all of it if the request failed outright."""
    if not isinstance(body, Mapping):
        return body if status is None or status >= 400 else None
    response = body.get("response")
    nested = response.get("error") if isinstance(response, Mapping) else None
    error = body.get("error") or body.get("errors") or nested
    if status is not None and status >= 400:
        return body
    return error if error or "choices" in body or "content" in body or "candidates" in body else body


def _texts(value: object) -> Iterator[str]:
    """Yield all text in a value, without recursion; whole numbers come with their field's name."""
    waiting: list[object] = [value]
    taken = 0
    while waiting and taken < MOST_TEXT:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += reversed([_with_name(key, inner) for key, inner in list(one.items())[:100]])
        elif isinstance(one, list | tuple):
            waiting += reversed(one[:100])
        elif isinstance(one, str):
            taken += len(one)
            yield one


def _with_name(key: object, value: object) -> object:
    return f"{key}: {value}" if isinstance(value, int) and not isinstance(value, bool) else value
