"""Providers' reports that a request was too large."""

import msgspec
import pytest

from infold.formats.overflow import BYTE_PHRASES, PHRASES, Overflow, recognise

REPORTS = [
    ("anthropic", "prompt is too long: 213462 tokens > 200000 maximum", 213_462, 200_000),
    ("anthropic", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 190_000, 200_000),
    ("bedrock", "Input is too long for requested model.", None, None),
    ("openai", "Your input exceeds the context window of this model.", None, None),
    ("openai", "exceeds the model's maximum context length of 128000 tokens", None, 128_000),
    ("openai", "exceeds maximum context length (8192)", None, 8_192),
    ("openai", "Input tokens exceed the configured limit of 272000 tokens. They resulted in 290000 tokens.", 290_000, 272_000),
    ("openai", "Maximum context length is 131072 tokens. However, you requested about 150000 tokens", 150_000, 131_072),
    ("openai", "maximum context length is 6000; you requested about 6200 (2900 of text input, 3300 in the output)", 2_900, 6_000),
    ("openai", "maximum context length is 6000; you requested 3300 output tokens; prompt contains at least 2900", 2_900, 6_000),
    ("openai", "'max_tokens' is too large: 3300. Maximum context length is 6000, your request has 2900 tokens", 2_900, 6_000),
    ("gemini", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1_196_265, 1_048_575),
    ("vercel", "tokens in request more than max tokens allowed", None, None),
    ("xai", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 537_812, 131_072),
    ("groq", "Please reduce the length of the messages or completion.", None, None),
    ("vllm", "the model's context length is only 4096 tokens; you requested 5000", 5_000, 4_096),
    ("vllm", "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131_393, 131_040),
    ("vllm", "Input length (265330) exceeds model's maximum context length (262144).", 265_330, 262_144),
    ("sglang", "The input (516368 tokens) is longer than the model's context length (262144 tokens).", 516_368, 262_144),
    ("mistral", "Prompt contains 5,958,968 tokens, too large for model with 256,000 maximum context length", 5_958_968, 256_000),
    ("copilot", "prompt token count of 150000 exceeds the limit of 128000", 150_000, 128_000),
    ("llama.cpp", "the request exceeds the available context size", None, None),
    ("lm-studio", "the number of tokens to keep is greater than the context length", None, None),
    ("ollama", "prompt too long; exceeded max context length by 120 tokens", None, None),
    ("minimax", "invalid params, context window exceeds limit (2013)", None, None),
    ("kimi", "Your request exceeded model token limit: 262144 (requested: 265330)", 265_330, 262_144),
    ("z.ai", "model_context_window_exceeded", None, None),
    ("local", "prompt has 3000 tokens but the configured context size is 2048", 3_000, 2_048),
    ("cohere", "total number of tokens in the prompt cannot exceed 4081 - received 5000", 5_000, 4_081),
    ("dashscope", "Range of input length should be [1, 129024]", None, 129_024),
    ("tgi", "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens", 5_000, 4_097),
    ("unknown", "token limit exceeded", None, None),
    ("unknown", "too many tokens", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("family", "words", "prompt", "limit"), REPORTS)
def test_every_known_report_is_recognised(family: str, words: str, prompt: int | None, limit: int | None) -> None:
    """A provider's words are an overflow, and the numbers in them are read."""
    expected = Overflow(family, prompt, limit)
    assert recognise(400, words) == expected
    assert recognise(422, {"error": {"message": words}}) == expected
    assert recognise(None, msgspec.json.encode({"type": "error", "error": {"message": words}})) == expected


def test_there_are_at_least_27_phrases() -> None:
    """The table is as long as the specification asks, and every family in it has a sample above."""
    assert len(PHRASES) + len(BYTE_PHRASES) >= 27
    assert {family for family, _ in PHRASES} == {report[0] for report in REPORTS}


def test_llama_cpp_tells_its_numbers_in_fields() -> None:
    """llama.cpp's error has both sizes as numbers beside its words."""
    body = b"""{"error":{"code":400,"message":"request (3895 tokens) exceeds the available context size (2048 tokens),
        try increasing it","type":"exceed_context_size_error","n_prompt_tokens":3895,"n_ctx":2048}}"""
    assert recognise(400, body.replace(b"\n", b"")) == Overflow("llama.cpp", 3_895, 2_048)
    assert recognise(
        400, {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}}
    ) == Overflow("llama.cpp", 9, 8)


def test_the_messages_size_is_told_apart_from_the_completions() -> None:
    """Where the words split the request, the prompt is what stood in the messages."""
    words = (
        "This model's maximum context length is 2048 tokens. However, you requested 3903 tokens "
        "(3895 in the messages, 8 in the completion)."
    )
    body = {"error": {"message": words, "param": "messages", "code": "context_length_exceeded"}}
    assert recognise(400, body) == Overflow("openai", 3_895, 2_048)


@pytest.mark.parametrize(
    "body",
    [
        {"type": "error", "error": {"code": "context_length_exceeded"}},
        {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded"}}},
        b'event: error\ndata: {"type":"error","error":{"message":"prompt is too long: 5 tokens > 3 maximum"}}\n\n',
    ],
)
def test_errors_inside_a_stream_are_recognised(body: bytes | dict[str, object]) -> None:
    """A stream that began well can still report an overflow."""
    assert recognise(200, body) is not None


def test_a_model_may_speak_about_overflow() -> None:
    """The words of a reply are not a report."""
    said = "prompt is too long: 5 tokens > 3 maximum"
    for status in (200, None):
        assert recognise(status, {"choices": [{"message": {"content": said}}]}) is None
    assert recognise(200, said) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, "Throttling error: Too many tokens, please wait before trying again."),
        (429, "Rate limit reached: too many tokens per minute"),
        (413, {"error": {"message": "Request too large on tokens per minute (TPM)", "code": "rate_limit_exceeded"}}),
        (503, "Service unavailable: too many tokens in flight"),
        (400, "Too many requests"),
        (429, ""),
        (429, "too many tokens"),
        (500, ""),
        (400, {"error": {"message": "Invalid value for temperature"}}),
        (401, None),
    ],
)
def test_other_failures_are_no_overflow(status: int, body: str | dict[str, object] | None) -> None:
    """Going too fast, being down or being wrong is not being too large."""
    assert recognise(status, body) is None


def test_the_exact_code_outweighs_the_pace() -> None:
    """An error code that can mean nothing else counts even under a 429."""
    assert recognise(429, {"error": {"code": "context_length_exceeded"}}) == Overflow("openai")


@pytest.mark.parametrize(
    ("status", "body", "family"),
    [
        (413, b"", "http"),
        (413, "<html>nginx</html>", "http"),
        (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, "anthropic"),
        (400, "Request Entity Too Large", "http"),
        (400, {"error": {"code": "string_above_max_length"}}, "openai"),
        (None, "413 status code (no body)", "http"),
    ],
)
def test_too_many_bytes_is_an_overflow_of_its_own_kind(status: int | None, body: bytes | str, family: str) -> None:
    """A body refused for its bytes says nothing about tokens."""
    assert recognise(status, body) == Overflow(family, bytes_limit=True)


def test_a_400_without_a_body_is_an_overflow() -> None:
    """Some services say no more than that."""
    assert recognise(400, b"") == Overflow("http")
    assert recognise(None, "400 status code (no body)") == Overflow("http")


def test_hostile_bodies_do_no_harm() -> None:
    """Depth, length and odd bytes are read within bounds."""
    nested: dict[str, object] = {"message": "prompt is too long"}
    for _ in range(50_000):
        nested = {"error": nested}
    assert recognise(400, nested) == Overflow("anthropic")
    assert recognise(400, b"[" * 100_000) is None
    assert recognise(400, b"\xff" * 1_000_000) is None


BOUND = (
    "messages.3.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove "
    'the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
MODIFIED = (
    "messages.7.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)


@pytest.mark.parametrize("words", [BOUND, MODIFIED])
def test_thinking_of_another_conversation_is_told_apart(words: str) -> None:
    """B32: a refusal of bound thinking is recognised as such, whoever reports it and however long its last sentence is."""
    expected = Overflow("anthropic", bound_thinking=True, binds="bound to" in words)
    for more in ("", " This beta is enabled by the header `anthropic-beta`.", " Changed: tools."):
        body = {"type": "error", "error": {"type": "invalid_request_error", "message": words + more}}
        assert recognise(400, body) == expected
        assert recognise(None, f"Error code: 400 - {body}") == expected
    assert recognise(200, {"content": [{"type": "text", "text": words}]}) is None


def test_reasoning_that_openai_cannot_read_is_told_apart() -> None:
    """B32: encrypted reasoning of another account is refused; the same request without it may be sent."""
    words = "The encrypted content gAAA...Rg== could not be verified. Reason: Encrypted content could not be decrypted."
    error = {"message": words, "type": "invalid_request_error", "param": None, "code": "invalid_encrypted_content"}

    for body in ({"error": error}, {"error": {**error, "code": None}}, {"error": {**error, "message": "Not valid."}}):
        assert recognise(400, body) == Overflow("openai", bound_thinking=True)
    failed = {"type": "response.failed", "response": {"error": {"code": "invalid_encrypted_content", "message": words}}}
    assert recognise(None, failed) == Overflow("openai", bound_thinking=True)
