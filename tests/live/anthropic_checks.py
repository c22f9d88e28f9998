"""What infold assumes about Anthropic's API: bound thinking, compaction on demand, cache, counts, refusals."""

from collections.abc import Sequence
from copy import deepcopy
from uuid import uuid4

from infold.catalogue import binds_thinking, compacts_natively, lookup
from infold.core.summary_request import SummaryRequest
from infold.formats.anthropic import COMPACTION_BETA, THINKING, compaction_usage, without_thinking
from infold.formats.codec import Item, dict_or_empty, dicts_in
from infold.formats.registry import ANTHROPIC_MESSAGES
from infold.formats.requests import native_body, read_native
from infold.testing.anthropic_rules import BINDING_BETA, TOOL_CHANGES_BETA

from .api import (
    Answer,
    Api,
    CannotTell,
    Check,
    Finding,
    Once,
    Provider,
    different,
    expect,
    expect_accepted,
    expect_bound,
    expect_count,
    expect_overflow,
    expect_refused,
    expect_stream,
    expect_usage,
    large_text,
    same,
    sample_texts,
)

PROVIDER = Provider(
    name="anthropic",
    base_url="https://api.anthropic.com",
    keys=("ANTHROPIC_API_KEY",),
    model="claude-haiku-5-5",
    overflow_model="claude-haiku-4-5",
    headers=lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
)

PATH = "/v1/messages"
SYSTEM = "You keep the books of a ferry company. Think carefully before each answer, then answer in one sentence."
STOCK: Item = {
    "name": "stock",
    "description": "Return how many pieces of an article are in stock.",
    "input_schema": {"type": "object", "properties": {"article": {"type": "integer"}}, "required": ["article"]},
}
MONDAY = (
    "Seven trips ran on Monday. Three were full with 12 cars, the others had 5 cars each. A car pays 18, every fourth car of a "
    "trip half of that. Think it through, then say what Monday brought in."
)
TUESDAY = "On Tuesday the price rose by 2 and one full trip was cancelled. Think it through, then say what Tuesday brought in."
LOOKUP = "Look up the stock of the article whose number is the fifth prime above 100, with the tool. Think about which one it is."
SUMMARISE = "Summarise the conversation in three sentences."
WINDOW_STOP_TOKENS = 700
"""How far below the window the request stays that is to end there: enough for its frame and a part of the answer."""


class AnthropicChecks:
    """The checks, and the conversation with thinking that many of them send back in one changed form or another."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._binds = binds_thinking(api.model)
        self._conversation = Once(self._converse)
        self._compacted = Once(self._ask_compaction)

    def checks(self) -> tuple[Check, ...]:
        return (*self._plain(), *self._thinking(), *self._compaction(), *self._cache_and_state())

    # Plain requests.

    def _plain(self) -> tuple[Check, ...]:
        window = lookup(self._api.overflow_model).entry.context_tokens
        return (
            Check(
                name="usage",
                assumes="usage has input_tokens, output_tokens and the cache's counts; end_turn is the usual end",
                where="infold.formats.anthropic.usage",
                run=self._usage,
            ),
            Check(
                name="stream",
                assumes="a stream has the events that infold knows, with usage at its beginning and end",
                where="infold.formats.anthropic.AnthropicReply",
                run=lambda: expect_stream(
                    ANTHROPIC_MESSAGES, self._ask([_user("Say: ready.")], stream=True, max_tokens=1_000)
                ),
            ),
            *(
                Check(
                    name=f"count, {kind}",
                    assumes=f"the count of {kind} text is within the bounds of the model's family",
                    where="infold.catalogue.lookup.FAMILIES",
                    run=lambda text=text: self._count(text),  # type: ignore[misc]  # a default binds the loop's value
                    input_tokens=0,
                    output_tokens=0,
                )
                for kind, text in sample_texts().items()
            ),
            Check(
                name="overflow",
                assumes="a request over the window is refused in words that infold knows, with size and limit",
                where="infold.formats.overflow.PHRASES",
                run=self._overflow,
                is_refused=True,
            ),
            Check(
                name="window",
                assumes="max_tokens beyond the window is refused in words that infold knows, or the reply ends there",
                where="infold.formats.overflow.PHRASES",
                run=self._fill_window,
                calls=2,
                input_tokens=window,
                is_large=True,
            ),
            Check(
                name="unknown field",
                assumes="an unknown field is refused, and the refusal is not taken for an overflow",
                where="infold.formats.overflow.recognise",
                run=self._unknown_field,
            ),
        )

    def _usage(self) -> Finding:
        answer = self._ask([_user("Say: ready.")], max_tokens=1_000)
        return expect_usage(ANTHROPIC_MESSAGES, answer.body) if answer.is_accepted else expect_accepted(answer)

    def _count(self, text: str) -> Finding:
        answer = self._api.post(f"{PATH}/count_tokens", {"model": self._api.model, "messages": [_user(text)]})
        counted = answer.body.get("input_tokens")
        return expect_count(self._api.model, text, counted) if answer.is_accepted else expect_accepted(answer)

    def _overflow(self) -> Finding:
        window = self._api.window_tokens
        body = {"model": self._api.overflow_model, "max_tokens": 16, "messages": [_user(large_text(window * 5 // 4))]}
        return expect_overflow(self._api.post(PATH, body), window)

    def _fill_window(self) -> Finding:
        model, window = self._api.overflow_model, self._api.window_tokens
        sample = large_text(window // 10)
        counted = self._api.post(f"{PATH}/count_tokens", {"model": model, "messages": [_user(sample)]})
        tokens = counted.body.get("input_tokens")
        if not isinstance(tokens, int) or tokens <= 0:
            raise CannotTell(f"the text could not be counted: {counted.refusal}")
        text = sample * (window // tokens + 1)
        text = text[: len(sample) * (window - WINDOW_STOP_TOKENS) // tokens]
        asked = [_user(f"{text}\n\nCount from 1 to 3000, one number on each line, and write nothing else.")]
        answer = self._api.post(PATH, {"model": model, "max_tokens": 8_000, "messages": asked})
        if not answer.is_accepted:
            return expect(answer.overflow is not None, f"refused: {answer.refusal}")
        reason = answer.body.get("stop_reason")
        if reason in ("end_turn", "max_tokens"):
            raise CannotTell(f"the reply ended before the window did ({reason})")
        return expect(ANTHROPIC_MESSAGES.finish(answer.body) == "length", f"the reply ended with {reason!r}")

    def _unknown_field(self) -> Finding:
        answer = self._ask([_user("Say: ready.")], infold_live_check=True)
        if answer.is_accepted:
            raise CannotTell("accepted: unknown fields are ignored here")
        return expect(answer.overflow is None, f"refused: {answer.refusal}")

    # Thinking that is sent back.

    def _thinking(self) -> tuple[Check, ...]:
        refused = "is refused in words that infold recognises" if self._binds else "is accepted by this model"
        rules = "infold.testing.anthropic_rules.AnthropicRules"
        decision = "docs/decisions/0025-bound-thinking-leaves-the-view.md"
        return (
            Check(
                name="thinking, unchanged",
                assumes="a conversation with thinking and a tool call is accepted if nothing was changed",
                where=rules,
                run=lambda: expect_accepted(self._send_back(self._conversation.get())),
                calls=4,
                input_tokens=2_500,
                output_tokens=2_500,
            ),
            Check(
                name="thinking, changed prefix",
                assumes=f"thinking behind a changed message {refused}",
                where="infold.catalogue.binds_thinking",
                run=lambda: self._expect_check(self._send_back(_changed(self._conversation.get()))),
            ),
            Check(
                name="thinking, changed system",
                assumes=f"thinking behind a changed system prompt {refused}",
                where="infold.catalogue.binds_thinking",
                run=lambda: self._expect_check(self._send_back(self._conversation.get(), system=f"{SYSTEM} Be brief.")),
            ),
            Check(
                name="thinking, changed prefix, no control",
                assumes="the same without `prefix_mismatch_behavior`: accounts made since 31 August 2026 are checked",
                where="infold.catalogue.binds_thinking",
                run=self._changed_by_default,
            ),
            Check(
                name="thinking, all removed",
                assumes="a conversation is accepted without any of its thinking, outside a tool loop",
                where=decision,
                run=self._removed_outside_a_loop,
            ),
            Check(
                name="thinking, all removed in a tool loop",
                assumes="the same while a tool call is being answered (one sentence of the docs can be read to forbid it)",
                where=decision,
                run=self._removed_in_a_loop,
            ),
            Check(
                name="thinking, oldest removed",
                assumes="thinking may be missing as a run from the start",
                where=decision,
                run=lambda: expect_accepted(self._send_back(self._without(0))),
            ),
            Check(
                name="thinking, one removed in the middle",
                assumes=f"thinking that is missing between two others {refused}",
                where=decision,
                run=lambda: self._expect_check(self._send_back(self._without(1))),
            ),
            Check(
                name="thinking, drop_block",
                assumes="with drop_block a changed prefix is accepted; input_transformations lists what was dropped",
                where="infold.formats.anthropic.drops_thinking",
                run=self._drop_block,
            ),
            Check(
                name="thinking, changed cache_control",
                assumes="marks for the cache are not part of what thinking is bound to",
                where=rules,
                run=lambda: expect_accepted(self._send_back(_marked(self._conversation.get()))),
                input_tokens=900,
            ),
        )

    def _converse(self) -> list[Item]:
        """Ask the questions one after the other; return the messages, the last one the answer to a tool call."""
        messages: list[Item] = []
        for question in (MONDAY, TUESDAY, LOOKUP):
            messages.append(_user(question))
            answer = self._send_back(messages, max_tokens=3_000)
            if not answer.is_accepted:
                raise CannotTell(f"the conversation cannot be held: {answer.refusal}")
            messages.append({"role": "assistant", "content": answer.body.get("content") or []})
        if not any(_thinking_in(message) for message in messages):
            raise CannotTell("the model did not think")
        calls = _calls_in(messages[-1])
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "41 pieces"} for call in calls]
        return [*messages, {"role": "user", "content": results} if results else _user("Thank you. Is that all?")]

    def _send_back(self, messages: Sequence[object], *, betas: Sequence[str] = (), **fields: object) -> Answer:
        """Send a conversation with tools and thinking, checked for what the thinking is bound to."""
        binding = {"block_binding": {"prefix_mismatch_behavior": "error"}} if self._binds else {}
        thinking = {"thinking": {"type": "adaptive", **binding}}
        body = {"system": SYSTEM, "tools": [STOCK], **thinking, **fields}
        return self._ask(messages, *((BINDING_BETA,) if self._binds else ()), *betas, **body)

    def _expect_check(self, answer: Answer) -> Finding:
        return expect_bound(answer) if self._binds else expect_accepted(answer)

    def _changed_by_default(self) -> Finding:
        self._require(self._binds, "the catalogue does not list this model as one that binds thinking")
        answer = self._send_back(_changed(self._conversation.get()), thinking={"type": "adaptive"})
        if answer.is_accepted:
            raise CannotTell("accepted: this account is not checked; `bound_thinking=False` keeps its thinking")
        return expect_bound(answer)

    def _removed_outside_a_loop(self) -> Finding:
        bare = without_thinking(self._conversation.get()[:5])
        return expect_accepted(self._send_back(bare))

    def _removed_in_a_loop(self) -> Finding:
        messages = self._conversation.get()
        self._require(bool(_calls_in(messages[-2])), "the model did not call the tool")
        answer = self._send_back(without_thinking(messages))
        if answer.is_accepted:
            return same("accepted: all thinking of an open tool loop may be left out")
        known = answer.overflow is not None and answer.overflow.bound_thinking
        return different(f"the strict reading holds; infold {'recovers' if known else 'fails'}: {answer.refusal}")

    def _without(self, place: int) -> list[Item]:
        """Return the conversation without the thinking of one of three replies."""
        messages = self._conversation.get()
        replies = [index for index, message in enumerate(messages) if _thinking_in(message)]
        self._require(len(replies) >= 3, f"the model thought in {len(replies)} of 3 replies")
        index = replies[place]
        kept = [block for block in messages[index]["content"] if block.get("type") not in THINKING]
        self._require(bool(kept), "the reply has nothing but thinking")
        return [*messages[:index], {**messages[index], "content": kept}, *messages[index + 1 :]]

    def _drop_block(self) -> Finding:
        self._require(self._binds, "the catalogue does not list this model as one that binds thinking")
        drops = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        answer = self._send_back(_changed(self._conversation.get()), thinking=drops)
        if not answer.is_accepted:
            return expect_accepted(answer)
        listed = [
            (entry.get("type"), entry.get("reason")) for entry in dicts_in(answer.body.get("input_transformations"))
        ]
        return expect(("thinking_dropped", "prefix_binding_mismatch") in listed, f"accepted; listed: {listed}")

    # Compaction on demand.

    def _compaction(self) -> tuple[Check, ...]:
        rules = "docs/decisions/0031-native-compaction.md"
        return (
            Check(
                name="compaction",
                assumes="the reply is one block with text and signature, stop_reason compaction, usage in iterations",
                where="infold.formats.requests.read_native",
                run=self._read_compaction,
                input_tokens=1_500,
                output_tokens=600,
            ),
            Check(
                name="compaction, kept turns",
                assumes="thinking in turns that follow the block as they were is accepted",
                where=rules,
                run=lambda: expect_accepted(self._after_block()),
            ),
            Check(
                name="compaction, text after the block",
                assumes=f"a text between block and kept turns {'makes their thinking invalid' if self._binds else 'is accepted'}",
                where=rules,
                run=lambda: self._expect_check(self._after_block(_user("Never sell on credit."))),
            ),
            Check(
                name="compaction, text at the end",
                assumes="a text after the kept turns is accepted: infold's ledger goes there",
                where=rules,
                run=lambda: expect_accepted(self._after_block(last=_text("Never sell on credit."))),
            ),
            Check(
                name="compaction, block without the beta",
                assumes="a request that holds the block without the beta is refused",
                where="infold.formats.requests.native_betas",
                run=lambda: expect_refused(self._after_block(betas=()), "compaction|beta|tag"),
            ),
            Check(
                name="compaction, no beta",
                assumes="a request for compaction without the beta is refused",
                where="infold.formats.requests.native_betas",
                run=lambda: expect_refused(self._ask_compaction(betas=()), "compaction|beta|extra inputs"),
            ),
            Check(
                name="compaction, context_management",
                assumes="compaction is refused together with context_management",
                where="infold.testing.anthropic_rules",
                run=self._compaction_and_edits,
            ),
            Check(
                name="compaction, open call",
                assumes="compaction is refused while a tool call has no result",
                where=rules,
                run=self._compaction_of_an_open_call,
            ),
        )

    def _head(self) -> list[Item]:
        """Return the messages of the request for the second reply: what follows is kept."""
        return self._conversation.get()[:3]

    def _ask_compaction(
        self, messages: Sequence[Item] | None = None, betas: Sequence[str] = (COMPACTION_BETA,), **fields: object
    ) -> Answer:
        self._require(compacts_natively(self._api.model), "the catalogue does not list this model as one that compacts")
        items = tuple(self._head() if messages is None else messages)
        request = SummaryRequest(SYSTEM, (), 4_000, is_native=True, instructions=SUMMARISE, items=items)
        ordinary = {"model": self._api.model, "system": SYSTEM, "tools": [STOCK], "thinking": {"type": "adaptive"}}
        return self._api.post(PATH, {**native_body(ANTHROPIC_MESSAGES, ordinary, request), **fields}, *betas)

    def _read_compaction(self) -> Finding:
        answer = self._compacted.get()
        if not answer.is_accepted:
            return expect_accepted(answer)
        body = answer.body
        blocks = dicts_in(body.get("content"))
        fields = sorted({name for block in blocks for name, value in block.items() if value is not None})
        found = f"stop_reason {body.get('stop_reason')!r}, fields {', '.join(fields)}, usage {compaction_usage(body)}"
        is_read = read_native(ANTHROPIC_MESSAGES, body) is not None and compaction_usage(body) is not None
        return expect(is_read and {"content", "signature"} <= {*fields}, found)

    def _after_block(
        self, *between: Item, last: Item | None = None, betas: Sequence[str] = (COMPACTION_BETA,)
    ) -> Answer:
        compacted = self._compacted.get()
        block = {"role": "assistant", "content": compacted.body.get("content")}
        self._require(bool(block["content"]), f"there is no block to go on with: {compacted.refusal}")
        messages = self._conversation.get()
        kept = deepcopy(messages[len(self._head()) :])
        if last is not None:
            content = kept[-1]["content"]
            kept[-1]["content"] = [*([_text(content)] if isinstance(content, str) else content), last]
        return self._send_back([block, *between, *kept], betas=betas)

    def _compaction_and_edits(self) -> Finding:
        edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
        answer = self._ask_compaction(
            betas=(COMPACTION_BETA, "context-management-2025-06-27"), context_management=edits
        )
        return expect_refused(answer, "compaction|context_management")

    def _compaction_of_an_open_call(self) -> Finding:
        messages = self._conversation.get()[:-1]
        self._require(bool(_calls_in(messages[-1])), "the model did not call the tool")
        return expect_refused(self._ask_compaction(messages), "tool_use|tool_result|call|compaction")

    # The cache, and state in the history.

    def _cache_and_state(self) -> tuple[Check, ...]:
        rules = "infold.testing.anthropic_rules.AnthropicRules"
        return (
            Check(
                name="cache",
                assumes="a marked system prompt is written to the cache, and read from it by the next request",
                where="infold.formats.anthropic.usage",
                run=self._cache,
                calls=2,
                input_tokens=8_000,
            ),
            Check(
                name="cache, one hour",
                assumes="ttl 1h is accepted, and counted in cache_creation.ephemeral_1h_input_tokens",
                where="infold.catalogue.models.Prices",
                run=self._cache_for_an_hour,
                input_tokens=8_000,
            ),
            Check(
                name="system message",
                assumes="a system message among the messages is accepted",
                where=rules,
                run=lambda: expect_accepted(self._ask([_user("Say: ready."), _system("Answer in capitals.")])),
            ),
            Check(
                name="tool_addition",
                assumes="a tool that is loaded later may be added in a system message",
                where=rules,
                run=self._add_tool,
            ),
        )

    def _cache(self) -> Finding:
        system = [_mark(_text(f"{uuid4()}\n{large_text(4_000)}"))]
        answers = [self._ask([_user(f"Say: {word}.")], system=system) for word in ("one", "two")]
        usages = [ANTHROPIC_MESSAGES.usage(answer.body) for answer in answers]
        if not all(answer.is_accepted for answer in answers):
            return expect_accepted(next(answer for answer in answers if not answer.is_accepted))
        written, read = (usages[0].cache_write if usages[0] else 0), (usages[1].cache_read if usages[1] else 0)
        found = f"written {written:,}, then read {read:,} tokens"
        if not written and not read:
            raise CannotTell(f"{found}: nothing was cached")
        return expect(written > 0 and read > 0, found)

    def _cache_for_an_hour(self) -> Finding:
        mark = {"type": "ephemeral", "ttl": "1h"}
        system = [{**_text(f"{uuid4()}\n{large_text(4_000)}"), "cache_control": mark}]
        answer = self._ask([_user("Say: ready.")], system=system)
        if not answer.is_accepted:
            return expect_accepted(answer)
        created = dict_or_empty(dict_or_empty(answer.body.get("usage")).get("cache_creation"))
        if not created:
            raise CannotTell("accepted, but usage has no cache_creation")
        return expect(bool(created.get("ephemeral_1h_input_tokens")), f"accepted; cache_creation {created}")

    def _add_tool(self) -> Finding:
        later = {**STOCK, "name": "orders", "description": "Return open orders of an article.", "defer_loading": True}
        added = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "orders"}}
        messages = [_user("Say: ready."), {"role": "system", "content": [added]}]
        return expect_accepted(self._ask(messages, TOOL_CHANGES_BETA, tools=[STOCK, later]))

    def _ask(self, messages: Sequence[object], *betas: str, **fields: object) -> Answer:
        body = {"model": self._api.model, "max_tokens": 100, "messages": [*messages], **fields}
        return self._api.post(PATH, body, *betas)

    @staticmethod
    def _require(is_so: bool, otherwise: str) -> None:
        if not is_so:
            raise CannotTell(otherwise)


def _user(text: str) -> Item:
    return {"role": "user", "content": text}


def _system(text: str) -> Item:
    return {"role": "system", "content": text}


def _text(text: str) -> Item:
    return {"type": "text", "text": text}


def _mark(block: Item) -> Item:
    return {**block, "cache_control": {"type": "ephemeral"}}


def _thinking_in(message: Item) -> list[Item]:
    return [block for block in dicts_in(message.get("content")) if block.get("type") in THINKING]


def _calls_in(message: Item) -> list[Item]:
    return [block for block in dicts_in(message.get("content")) if block.get("type") == "tool_use"]


def _changed(messages: Sequence[Item]) -> list[Item]:
    """Return a conversation whose first message has another text, as behind a fold."""
    return [_user("[Earlier conversation, folded.] Monday brought in 846."), *messages[1:]]


def _marked(messages: Sequence[Item]) -> list[Item]:
    """Return a conversation whose first message is marked for the cache."""
    return [{**messages[0], "content": [_mark(_text(messages[0]["content"]))]}, *messages[1:]]
