"""What infold assumes about OpenAI's API: encrypted reasoning, `/responses/compact`, cache, counts, refusals."""

from collections.abc import Sequence
from uuid import uuid4

from infold.core.summary_request import SummaryRequest
from infold.formats.codec import Item, dict_or_empty, dicts_in
from infold.formats.openai_responses import tool_item
from infold.formats.registry import OPENAI_CHAT, OPENAI_RESPONSES
from infold.formats.requests import native_body, native_path_suffix, read_native

from .api import (
    Answer,
    Api,
    CannotTell,
    Check,
    Finding,
    Once,
    Provider,
    expect,
    expect_accepted,
    expect_count,
    expect_overflow,
    expect_refused,
    expect_stream,
    expect_usage,
    large_text,
    sample_texts,
)

PROVIDER = Provider(
    name="openai",
    base_url="https://api.openai.com",
    keys=("OPENAI_API_KEY",),
    model="gpt-5.6-luna",
    overflow_model="gpt-5.4-nano",
    headers=lambda key: {"authorization": f"Bearer {key}"},
)

PATH, CHAT_PATH = "/v1/responses", "/v1/chat/completions"
STOCK = tool_item(
    "stock",
    "Return how many pieces of an article are in stock.",
    {
        "type": "object",
        "properties": {"article": {"type": "integer"}},
        "required": ["article"],
        "additionalProperties": False,
    },
)
QUESTION = (
    "Look up the stock of the article whose number is the fifth prime above 100, with the tool. Work out which it is."
)
REASONING: Item = {
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "medium"},
    "tools": [STOCK],
    "max_output_tokens": 3_000,
}
RULES = "tests/support/provider_rules.py"
REPEATS = 3
"""Requests with one prompt until its cache is read: which machine answers is not ours to choose."""


class OpenAIChecks:
    """The checks, and the reply with encrypted reasoning that many of them send back in one changed form or another."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._reply = Once(self._reason)
        self._compacted = Once(self._ask_compaction)

    def checks(self) -> tuple[Check, ...]:
        return (*self._plain(), *self._limits(), *self._reasoning(), *self._compaction(), *self._cache())

    # Plain requests.

    def _plain(self) -> tuple[Check, ...]:
        ready: list[Item] = [_user("Say: ready.")]
        return (
            Check(
                name="usage",
                assumes="usage has input_tokens and output_tokens with their details; `completed` is the usual end",
                where="infold.formats.openai_responses.usage",
                run=lambda: _usage(self._ask(ready)),
            ),
            Check(
                name="usage, chat",
                assumes="usage has prompt_tokens and completion_tokens with their details; `stop` is the usual end",
                where="infold.formats.openai_chat.usage",
                run=self._chat_usage,
            ),
            Check(
                name="stream",
                assumes="a stream has the events that infold knows, and the whole response in the last one",
                where="infold.formats.openai_responses.ResponsesReply",
                run=lambda: expect_stream(OPENAI_RESPONSES, self._ask(ready, stream=True)),
            ),
            *(
                Check(
                    name=f"count, {kind}",
                    assumes=f"the count of {kind} text is within the bounds of the model's family",
                    where="infold.session.counting.counting_for",
                    run=lambda text=text: self._count(text),  # type: ignore[misc]  # a default binds the loop's value
                    input_tokens=0,
                    output_tokens=0,
                )
                for kind, text in sample_texts().items()
            ),
        )

    def _chat_usage(self) -> Finding:
        body = {"model": self._api.model, "max_completion_tokens": 1_000, "messages": [_user("Say: ready.")]}
        answer = self._api.post(CHAT_PATH, body)
        return expect_usage(OPENAI_CHAT, answer.body) if answer.is_accepted else expect_accepted(answer)

    def _count(self, text: str) -> Finding:
        answer = self._api.post(f"{PATH}/input_tokens", {"model": self._api.model, "input": [_user(text)]})
        counted = answer.body.get("input_tokens")
        return expect_count(self._api.model, text, counted) if answer.is_accepted else expect_accepted(answer)

    # Limits.

    def _limits(self) -> tuple[Check, ...]:
        return (
            Check(
                name="overflow",
                assumes="a request over the window is refused in words that infold knows",
                where="infold.formats.overflow.PHRASES",
                run=self._overflow,
                is_refused=True,
            ),
            Check(
                name="overflow, chat",
                assumes="the same for Chat Completions",
                where="infold.formats.overflow.PHRASES",
                run=self._chat_overflow,
                is_refused=True,
            ),
            Check(
                name="output limit",
                assumes="a reply that reaches max_output_tokens is incomplete, which infold reads as `length`",
                where="infold.formats.openai_responses.finish",
                run=self._output_limit,
            ),
            Check(
                name="unknown field",
                assumes="an unknown field is refused, and the refusal is not taken for an overflow",
                where="infold.formats.overflow.recognise",
                run=self._unknown_field,
            ),
        )

    def _overflow(self) -> Finding:
        window = self._api.window_tokens
        answer = self._ask([_user(large_text(window * 5 // 4))], model=self._api.overflow_model, max_output_tokens=16)
        return expect_overflow(answer, window)

    def _chat_overflow(self) -> Finding:
        window = self._api.window_tokens
        body = {"model": self._api.overflow_model, "max_completion_tokens": 16}
        answer = self._api.post(CHAT_PATH, {**body, "messages": [_user(large_text(window * 5 // 4))]})
        return expect_overflow(answer, window)

    def _output_limit(self) -> Finding:
        answer = self._ask([_user("Count from 1 to 200 in words.")], max_output_tokens=16)
        if not answer.is_accepted:
            return expect_accepted(answer)
        if answer.body.get("status") == "completed":
            raise CannotTell("the reply was complete all the same")
        reason = dict_or_empty(answer.body.get("incomplete_details")).get("reason")
        return expect(OPENAI_RESPONSES.finish(answer.body) == "length", f"{answer.body.get('status')}, {reason}")

    def _unknown_field(self) -> Finding:
        answer = self._ask([_user("Say: ready.")], infold_live_check=True)
        if answer.is_accepted:
            raise CannotTell("accepted: unknown fields are ignored here")
        return expect(answer.overflow is None, f"refused: {answer.refusal}")

    # Encrypted reasoning.

    def _reasoning(self) -> tuple[Check, ...]:
        formats = "docs/reference/wire-formats.md"
        return (
            Check(
                name="reasoning, unchanged",
                assumes="encrypted reasoning and its call are accepted with the call's result",
                where=formats,
                run=lambda: expect_accepted(self._send_back([_user(QUESTION), *self._answered()])),
                calls=2,
                input_tokens=1_000,
                output_tokens=1_000,
            ),
            Check(
                name="reasoning, changed prefix",
                assumes="encrypted reasoning behind a changed message is accepted (newer models ignore it)",
                where=formats,
                run=lambda: expect_accepted(self._send_back([_user(FOLDED), *self._answered()])),
            ),
            Check(
                name="reasoning, removed",
                assumes="a call is accepted without the reasoning that led to it",
                where="infold.formats.overflow.Overflow",
                run=lambda: expect_accepted(self._send_back([_user(QUESTION), *_bare(self._answered())])),
            ),
            Check(
                name="reasoning, alone",
                assumes="reasoning without the item that followed it is refused, so infold keeps a reply whole",
                where=RULES,
                run=self._reasoning_alone,
            ),
            Check(
                name="reasoning, unreadable",
                assumes="encrypted reasoning that was tampered with is refused",
                where=formats,
                run=self._unreadable,
            ),
        )

    def _reason(self) -> list[Item]:
        answer = self._send_back([_user(QUESTION)])
        if not answer.is_accepted:
            raise CannotTell(f"the model cannot be asked for encrypted reasoning: {answer.refusal}")
        items = dicts_in(answer.body.get("output"))
        if not any(item.get("type") == "reasoning" and item.get("encrypted_content") for item in items):
            raise CannotTell("the reply has no encrypted reasoning")
        return items

    def _answered(self) -> list[Item]:
        """Return the items of the reply, and the results of its calls."""
        items = self._reply.get()
        calls = [item for item in items if item.get("type") == "function_call"]
        results = [
            {"type": "function_call_output", "call_id": call.get("call_id"), "output": "41 pieces"} for call in calls
        ]
        return [*items, *(results or [_user("Thank you. Is that all?")])]

    def _send_back(self, items: Sequence[Item]) -> Answer:
        return self._ask(items, **REASONING)

    def _reasoning_alone(self) -> Finding:
        thoughts = [item for item in self._reply.get() if item.get("type") == "reasoning"]
        answer = self._send_back([_user(QUESTION), *thoughts, _user("Go on.")])
        return expect_refused(answer, "reasoning|following item")

    def _unreadable(self) -> Finding:
        items = [
            {**item, "encrypted_content": f"gAAAA{item['encrypted_content'][5:][::-1]}"} if _is_sealed(item) else item
            for item in self._answered()
        ]
        return expect_refused(self._send_back([_user(QUESTION), *items]), "encrypted|verified|decrypt|reasoning")

    # The provider's own compaction.

    def _compaction(self) -> tuple[Check, ...]:
        rules = "docs/decisions/0031-native-compaction.md"
        return (
            Check(
                name="compaction",
                assumes="/responses/compact returns the user's messages and one sealed item, with usage",
                where="infold.formats.requests.read_native",
                run=self._read_compaction,
                input_tokens=1_000,
                output_tokens=600,
            ),
            Check(
                name="compaction, next request",
                assumes="what it returned is accepted as the beginning of the next request",
                where=rules,
                run=lambda: expect_accepted(self._send_back([*self._summary(), _user("What is next?")])),
            ),
            Check(
                name="compaction, kept reasoning",
                assumes="encrypted reasoning in kept turns is accepted after it",
                where=rules,
                run=lambda: expect_accepted(self._send_back([*self._summary(), *self._answered()])),
            ),
        )

    def _ask_compaction(self) -> Answer:
        request = SummaryRequest("", (), 1_000, is_native=True, items=(_user(QUESTION),))
        body = native_body(OPENAI_RESPONSES, {"model": self._api.model, **REASONING}, request)
        return self._api.post(PATH + native_path_suffix(OPENAI_RESPONSES), body)

    def _summary(self) -> list[Item]:
        """Return the items that stand for the question."""
        answer = self._compacted.get()
        items = dicts_in(answer.body.get("output"))
        if not answer.is_accepted or not items:
            raise CannotTell(f"there is no summary to go on with: {answer.refusal}")
        return items

    def _read_compaction(self) -> Finding:
        answer = self._compacted.get()
        if not answer.is_accepted:
            return expect_accepted(answer)
        kinds = [(item.get("type"), item.get("role")) for item in dicts_in(answer.body.get("output"))]
        read = read_native(OPENAI_RESPONSES, answer.body)
        found = f"{answer.body.get('object')}: {kinds}, usage {read.usage if read else None}"
        is_last = bool(kinds) and kinds[-1][0] == "compaction"
        return expect(read is not None and read.usage is not None and is_last, found)

    # The cache.

    def _cache(self) -> tuple[Check, ...]:
        return (
            Check(
                name="cache",
                assumes="a repeated prompt is read from the cache, and usage says so",
                where="infold.formats.openai_responses.usage",
                run=self._repeat,
                calls=REPEATS,
                input_tokens=12_000,
            ),
            Check(
                name="cache, retention",
                assumes="prompt_cache_retention 24h is accepted",
                where="infold.formats.openai_responses.native_body",
                run=lambda: expect_accepted(self._ask([_user("Say: ready.")], prompt_cache_retention="24h")),
            ),
        )

    def _repeat(self) -> Finding:
        key = str(uuid4())
        prompt = f"{key}\n{large_text(4_000)}"
        for number in range(REPEATS):
            answer = self._ask([_user(f"Say: {number}.")], instructions=prompt, prompt_cache_key=key)
            if not answer.is_accepted:
                return expect_accepted(answer)
            used = OPENAI_RESPONSES.usage(answer.body)
            if used is not None and used.cache_read:
                return expect(number > 0, f"request {number + 1} read {used.cache_read:,} of {used.prompt:,} tokens")
        raise CannotTell(f"none of {REPEATS} requests was read from the cache, which is not guaranteed")

    def _ask(self, items: Sequence[Item], **fields: object) -> Answer:
        body = {"model": self._api.model, "store": False, "max_output_tokens": 1_000, "input": [*items], **fields}
        return self._api.post(PATH, body)


FOLDED = "[Earlier conversation, folded.] Look up the stock of article 113."


def _user(text: str) -> Item:
    return {"role": "user", "content": text}


def _usage(answer: Answer) -> Finding:
    return expect_usage(OPENAI_RESPONSES, answer.body) if answer.is_accepted else expect_accepted(answer)


def _is_sealed(item: Item) -> bool:
    return item.get("type") == "reasoning" and isinstance(item.get("encrypted_content"), str)


def _bare(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item.get("type") != "reasoning"]
