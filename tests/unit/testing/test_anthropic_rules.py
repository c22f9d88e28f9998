"""The scripted server's Anthropic rules: each one is kept by a request that passes, and broken by one that does not."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import anthropic
import openai
import pytest

from infold.formats.overflow import recognise
from infold.testing.anthropic_rules import (
    BINDING_BETA,
    CLEAR_AT_BETA,
    COMPACTION_BETA,
    INLINE_TOOLS_BETA,
    THREADS_BETA,
    TOOL_CHANGES_BETA,
    AnthropicRefusal,
    AnthropicRules,
)
from infold.testing.script import Fail, Hang, Say, ScriptedRequest, Send, in_turn
from infold.testing.scripted_server import ScriptedServer

Item = dict[str, Any]

MODEL = "claude-opus-5-5"
OLDER = "claude-opus-5"
HAIKU = "claude-haiku-5-5"
READ: Item = {"name": "read", "input_schema": {"type": "object"}}
GREP: Item = {"name": "grep", "input_schema": {"type": "object"}, "defer_loading": True}
THINKS = Say(
    calls=(("read", {"path": "src/ships.py"}), ("read", {"path": "docs/harbour.md"})), reasoning="Look at both."
)
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
SUMMARISE = {"type": "summarize"}


class Talk:
    """A client that keeps every message as it came."""

    def __init__(self, rules: AnthropicRules, *, model: str = MODEL, betas: Iterable[str] = (), **fields: Any) -> None:
        self.rules = rules
        self.model = model
        self.betas = tuple(betas)
        self.fields: Item = {"system": "Be careful.", "tools": [READ, GREP], **fields}
        self.items: list[Item] = [{"role": "user", "content": "Count the ships in src/ships.py. Never touch vendor/."}]

    def body(self, **fields: Any) -> Item:
        """The next request."""
        return {"model": self.model, "max_tokens": 400, "messages": deepcopy(self.items), **self.fields, **fields}

    def ask(self, **fields: Any) -> Item:
        """Send it."""
        return self.rules.reply(self.body(**fields), self.betas)

    def step(self, times: int = 1) -> "Talk":
        """Ask, keep the reply, and answer its calls."""
        for _ in range(times):
            reply = self.ask()
            self.items.append({"role": "assistant", "content": reply["content"]})
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": "12 ships"}
                for block in reply["content"]
                if block["type"] == "tool_use"
            ]
            self.items.append({"role": "user", "content": results or "Go on."})
        return self

    def thinking(self, index: int) -> None:
        """Remove the thinking of one message."""
        content = self.items[index]["content"]
        self.items[index] = {"role": "assistant", "content": [one for one in content if one["type"] != "thinking"]}

    def compact(self, **fields: Any) -> Item:
        """Ask for a compaction of everything that was sent so far."""
        return self.ask(compaction={**SUMMARISE, **fields})


def talk(steps: int = 3, *, rules: AnthropicRules | None = None, **fields: Any) -> Talk:
    """A conversation of some steps with parallel calls and thinking."""
    return Talk(rules or AnthropicRules(in_turn(THINKS)), **fields).step(steps)


def compacting(steps: int = 3, **options: Any) -> Talk:
    """The same, with the beta for compaction."""
    return talk(steps, rules=AnthropicRules(in_turn(THINKS), **options), betas=[COMPACTION_BETA])


@contextmanager
def served(rules: AnthropicRules) -> Iterator[anthropic.Anthropic]:
    """A client of Anthropic's SDK that talks to these rules over HTTP and never tries twice."""
    with (
        ScriptedServer(rules) as server,
        anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        yield client


def refused(asked: Callable[[], object], words: str) -> AnthropicRefusal:
    """A request that is refused with these words."""
    with pytest.raises(AnthropicRefusal) as caught:
        asked()
    assert words in str(caught.value)
    return caught.value


# Binding.


def test_a_conversation_sent_back_as_it_came_is_accepted() -> None:
    """Thinking stands where it stood: all of it is kept, cache marks and lists of text do not count."""
    going = talk()
    going.items[0] = {
        "role": "user",
        "content": [{"type": "text", "text": going.items[0]["content"], "cache_control": {"type": "ephemeral"}}],
    }
    going.fields["tools"] = [{**READ, "cache_control": {"type": "ephemeral"}}]
    going.ask()

    assert going.rules.refusals == []
    assert going.rules.requests[-1].kept == ("signed-1", "signed-2", "signed-3")


@pytest.mark.parametrize(
    "change",
    [
        lambda going: going.fields.update(system="Be quick."),
        lambda going: going.fields.update(tools=[{**READ, "description": "Read a file."}]),
        lambda going: going.items.__setitem__(0, {"role": "user", "content": "Something else."}),
        lambda going: going.items[2]["content"][0].update(content="[stub]"),
        lambda going: going.items.__setitem__(slice(0, 2), []) or going.items[0].update(content="folded"),
    ],
    ids=["system", "tools", "message", "stub", "fold"],
)
def test_a_changed_prefix_is_refused(change: Callable[[Talk], object]) -> None:
    """A block behind a change is refused with the documented text, which infold recognises."""
    going = talk()
    change(going)
    refusal = refused(going.ask, "The block is bound to a different conversation. Remove the block, or set")

    assert refusal.status_code == 400
    found = recognise(400, refusal.body)
    assert found is not None
    assert found.bound_thinking
    assert going.rules.refusals == [str(refusal)]


def test_blocks_before_and_after_a_change_stay_valid() -> None:
    """Only what was created before the change and stands behind it is invalid."""
    going = talk(4)
    going.items[4]["content"][0]["content"] = "[stub]"
    refusal = refused(going.ask, "messages.5.content.0")
    going.thinking(5)
    refused(going.ask, "messages.7.content.0")
    assert "messages.5" in str(refusal)

    going.thinking(7)
    going.step(2)
    going.ask()

    assert going.rules.requests[-1].kept == ("signed-1", "signed-2", "signed-5", "signed-6")
    assert going.rules.requests[-1].bare == 2


def test_tools_that_are_loaded_later_do_not_count() -> None:
    """A deferred tool may come and go."""
    going = talk()
    going.fields["tools"] = [READ]

    going.ask()


@pytest.mark.parametrize(("first", "fits"), [(1, True), (3, False)])
def test_thinking_may_be_missing_from_the_start_only(first: int, fits: bool) -> None:
    """A run from the start may be missing; a block between others may not."""
    going = talk()
    going.thinking(first)
    if fits:
        going.ask()
    else:
        refused(going.ask, "messages.5.content.0")


@pytest.mark.parametrize("part", ["thinking", "signature"])
def test_changed_thinking_is_refused_by_every_model(part: str) -> None:
    """A block that the server did not make has no valid signature."""
    going = talk(rules=AnthropicRules(in_turn(THINKS), binds=False))
    going.items[1]["content"][0][part] = "mine"

    refused(going.ask, "messages.1.content.0: Invalid `signature` in `thinking` block")


def test_hidden_thinking_is_bound_too() -> None:
    """Several blocks of one reply, redacted ones among them, each have their own place."""
    content: list[Item] = [
        {"type": "thinking", "thinking": "First.", "signature": ""},
        {"type": "redacted_thinking", "data": ""},
        {"type": "text", "text": "Done."},
    ]
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": content, "usage": {}}
    going = talk(2, rules=AnthropicRules(in_turn(Send({**body, "stop_reason": "end_turn"}))))
    going.ask()
    assert len(going.rules.requests[-1].kept) == 4

    del going.items[3]["content"][0]
    refused(going.ask, "messages.3.content.0")


@pytest.mark.parametrize("rules", [{"binds": False}, {"is_enforced": False}], ids=["model", "older account"])
def test_without_the_check_everything_is_kept(rules: Item) -> None:
    """Models and accounts without the check keep thinking behind any change."""
    going = talk(rules=AnthropicRules(in_turn(THINKS), **rules))
    going.fields["system"] = "Be quick."
    going.ask()

    assert len(going.rules.requests[-1].kept) == 3


def test_an_older_account_is_checked_if_it_asks() -> None:
    """Where the request says what to do about a mismatch, it is checked on every account."""
    going = talk(rules=AnthropicRules(in_turn(THINKS), is_enforced=False), betas=[BINDING_BETA])
    going.fields |= {
        "system": "Be quick.",
        "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}},
    }

    refused(going.ask, "bound to a different conversation")


@pytest.mark.parametrize(
    ("model", "binds"), [(MODEL, True), (OLDER, False), ("claude-fable-5-2", True), ("gpt-5", False)]
)
def test_the_documented_models_bind(model: str, binds: bool) -> None:
    """By default the models of the documentation check thinking, and no other."""
    going = talk(model=model)
    going.fields["system"] = "Be quick."
    if binds:
        refused(going.ask, "bound to a different conversation")
    else:
        going.ask()


def test_a_model_may_start_to_bind() -> None:
    """The check can be switched on in the middle of a conversation."""
    going = talk(rules=AnthropicRules(in_turn(THINKS), binds=False))
    going.fields["system"] = "Be quick."
    going.ask()
    going.rules.binds = True

    refused(going.ask, "bound to a different conversation")


# Dropping.


def test_a_client_may_ask_for_dropping() -> None:
    """With `drop_block` the failing blocks are removed and reported; what is created then stays valid."""
    going = talk(betas=[BINDING_BETA], thinking=DROPS)
    going.items[2]["content"][0]["content"] = "[stub]"
    reply = going.ask()
    going.step()
    going.ask()

    gone = {"type": "thinking_dropped", "reason": "prefix_binding_mismatch"}
    assert reply["input_transformations"] == [
        {**gone, "path": "messages.3.content.0"},
        {**gone, "path": "messages.5.content.0"},
    ]
    assert going.rules.requests[-1].kept == ("signed-1", "signed-5")


def test_dropping_has_conditions() -> None:
    """It needs its beta and adaptive thinking, on each request."""
    refused(talk(0, thinking=DROPS).ask, BINDING_BETA)
    refused(talk(0, betas=[BINDING_BETA], thinking={**DROPS, "type": "enabled"}).ask, "adaptive")
    going = talk(betas=[BINDING_BETA], thinking=DROPS)
    going.fields["system"] = "Be quick."
    going.ask()
    refused(lambda: going.ask(thinking={"type": "adaptive"}), "bound to a different conversation")


def test_a_model_drops_what_it_cannot_read() -> None:
    """Another model's thinking is removed without an error and is valid again for its own model; Haiku 5.5's is read by all."""
    going = talk(2, betas=[BINDING_BETA])
    going.model = OLDER
    going.step()
    assert going.rules.requests[-1].dropped == (
        ("messages.1.content.0", "model_binding_mismatch"),
        ("messages.3.content.0", "model_binding_mismatch"),
    )
    going.model = HAIKU
    going.step()
    going.model = MODEL
    going.step()
    going.ask()
    assert going.rules.requests[-1].kept == ("signed-1", "signed-2", "signed-4", "signed-5")

    going.items[0]["content"] = "Something else."
    refused(going.ask, "messages.1.content.0")


# The latest reply.


def test_the_latest_reply_has_all_or_none_of_its_thinking() -> None:
    """Its thinking may be missing as a whole, not in part; strictly read, not while its calls are answered."""
    twice = [{"type": "thinking", "thinking": text, "signature": ""} for text in ("One.", "Two.")]
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    body = {"id": "msg_1", "role": "assistant", "model": MODEL, "content": [*twice, call], "usage": {}}
    going = talk(1, rules=AnthropicRules(in_turn(Send({**body, "stop_reason": "tool_use"}))))
    going.items[1]["content"] = going.items[1]["content"][1:]
    refused(going.ask, "cannot be modified")
    going.thinking(1)
    going.ask()
    going.rules.is_strict = True
    refused(going.ask, "cannot be modified")


def test_manual_thinking_wants_the_open_reply_to_begin_with_it() -> None:
    """With `type: enabled` the last reply of an open loop starts with thinking."""
    going = talk(model=OLDER, thinking={"type": "enabled", "budget_tokens": 1_024})
    going.thinking(1)
    going.ask()
    going.thinking(5)

    refused(going.ask, "messages.5.content.0.type: Expected `thinking`")


# Compaction.


def test_a_compaction_block_stands_for_what_was_sent() -> None:
    """The kept turns follow the block unchanged: their thinking is valid, and so is what is created then."""
    going = compacting()
    sent = len(going.items)
    going.step(2)
    made = going.rules.reply(going.body(messages=going.items[:sent], compaction=SUMMARISE), going.betas)
    going.items[:sent] = [{"role": "assistant", "content": made["content"]}]
    going.step(2)
    going.ask()

    (block,) = made["content"]
    assert set(block) == {"type", "content", "encrypted_content", "signature", "tool_changes"}
    assert "Count the ships in src/ships.py. Never touch vendor/." in block["content"]
    assert made["stop_reason"] == "compaction"
    assert going.rules.requests[-1].kept == ("signed-4", "signed-5", "signed-6", "signed-7")
    assert going.rules.compactions[0].block == block
    assert len(going.rules.compactions[0].messages) == sent


def test_a_compaction_may_be_repeated_over_its_own_block() -> None:
    """A second block summarises the first; the first request is still in it."""
    going = compacting()
    for _ in range(3):
        sent = len(going.items)
        made = going.compact()
        going.step()
        going.items[:sent] = [{"role": "assistant", "content": made["content"]}]
        going.step()
    going.ask()

    assert len(going.rules.requests[-1].kept) == 2
    assert going.rules.refusals == []
    assert "Never touch vendor/" in going.rules.compactions[-1].block["content"]


def test_the_cost_of_a_compaction_is_counted_apart() -> None:
    """Its tokens are in an iteration, not in the fields of the reply."""
    usage = compacting().compact()["usage"]

    assert (usage["input_tokens"], usage["output_tokens"]) == (0, 0)
    (only,) = usage["iterations"]
    assert only["type"] == "compaction"
    assert only["input_tokens"] > 50
    assert only["output_tokens"] > 5


def test_a_compaction_has_conditions() -> None:
    """It needs its beta, no other context management, its only type, and answered calls."""
    going = compacting()
    refused(lambda: going.rules.reply(going.body(compaction=SUMMARISE)), COMPACTION_BETA)
    refused(
        lambda: going.ask(compaction=SUMMARISE, context_management={"edits": [{"type": "any"}]}), "context_management"
    )
    refused(lambda: going.compact(type="trim"), "summarize")
    going.items.pop()
    refused(going.compact, "has no result")


def test_later_requests_need_the_beta_too() -> None:
    """Every request that holds a block has the beta."""
    going = compacting()
    going.items = [{"role": "assistant", "content": going.compact()["content"]}, {"role": "user", "content": "Go on."}]
    going.ask()
    going.betas = ()

    refused(going.ask, COMPACTION_BETA)


def compacted(going: Talk) -> list[Item]:
    """Replace all but the last reply and its results by a block; the block's message is returned with what it replaced."""
    sent = len(going.items)
    made = going.compact()
    going.step()
    replaced = going.items[:sent]
    going.items[:sent] = [{"role": "assistant", "content": made["content"]}]
    return replaced


BETWEEN = {"role": "user", "content": "Facts: 12 ships."}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda going: going.items.insert(1, BETWEEN), "messages.2.content.0"),
        (lambda going: going.items[0]["content"].append({"type": "text", "text": "Facts."}), "messages.1.content.0"),
        (lambda going: going.fields.update(system="Be quick."), "messages.1.content.0"),
        (lambda going: going.fields.update(tools=[]), "messages.1.content.0"),
    ],
    ids=["message between", "text between", "system", "tools"],
)
def test_kept_thinking_must_follow_its_block(change: Callable[[Talk], object], path: str) -> None:
    """If something stands between, or system or tools differ, the block is accepted and the first kept thinking is not."""
    going = compacting()
    compacted(going)
    going.ask()
    change(going)

    refused(going.ask, f"{path}: Invalid `signature` in `thinking` block. The block is bound")


def test_nothing_may_be_skipped_behind_a_block() -> None:
    """Kept turns begin with the first message that the block does not stand for."""
    going = compacting()
    compacted(going)
    going.step(2)
    del going.items[1:3]

    refused(going.ask, "messages.1.content.0")


@pytest.mark.parametrize("first", [BETWEEN, {"role": "system", "content": "Be quick."}], ids=["same role", "system"])
def test_kept_turns_begin_with_another_role(first: Item) -> None:
    """The first kept message has another role than the last summarised one, and is not a system message."""
    going = compacting()
    sent = len(going.items)
    made = going.compact()
    going.items.append(first)
    going.step()
    going.ask()
    going.items[:sent] = [{"role": "assistant", "content": made["content"]}]

    refused(going.ask, "messages.2.content.0")


def test_a_compaction_without_the_check_keeps_no_thinking() -> None:
    """Every compaction has to run on a model with the check."""
    going = compacting(binds=False)
    compacted(going)
    going.ask()
    going.rules.binds = True

    refused(going.ask, "bound to a different conversation")


def test_an_undone_compaction_ends_the_thinking_after_it() -> None:
    """What was created behind a block is bound to the block."""
    going = compacting()
    replaced = compacted(going)
    going.step()
    going.items[:1] = replaced

    refused(going.ask, "messages.9.content.0")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda going: going.items.insert(0, BETWEEN), "must come first"),
        (lambda going: going.items[0].update(role="user"), "must come first"),
        (lambda going: going.items[0]["content"][0].update(content="Mine."), "Invalid `signature` in `compaction`"),
        (lambda going: going.items[0]["content"][0].pop("signature"), "Invalid `signature` in `compaction`"),
        (lambda going: going.items[0]["content"][0].update(tool_changes=None), "Invalid `signature` in `compaction`"),
    ],
)
def test_a_block_comes_first_and_unchanged(change: Callable[[Talk], object], words: str) -> None:
    """A block elsewhere, or one that was changed, is refused."""
    going = compacting()
    compacted(going)
    change(going)

    refused(going.ask, words)


def test_a_failed_block_is_ignored() -> None:
    """A block without content changes nothing."""
    going = compacting()
    going.items[1]["content"].append({"type": "compaction", "content": None})

    going.ask()


@pytest.mark.parametrize("finish", ["length", "content-filter"])
def test_another_stop_reason_is_no_summary(finish: Any) -> None:
    """A compaction that ends otherwise has no block."""
    made = compacting(summarise=in_turn(Say("Half a", finish=finish))).compact()

    assert made["stop_reason"] != "compaction"
    assert made["content"] == []


def test_a_compaction_may_fail() -> None:
    """Failures are scripted as everywhere, and the summary can be the test's own."""
    busy = Fail(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    going = compacting(summarise=in_turn(busy, Say("Mine.")))
    refusal = refused(going.compact, "Overloaded")
    made = going.compact(instructions="Keep the ships.")

    assert refusal.status_code == 529
    assert made["content"][0]["content"] == "Mine."
    assert going.rules.compactions[-1].instructions == "Keep the ships."


# Threads.


def test_a_thread_holds_the_history() -> None:
    """`continue` sends the new messages alone; thinking and tools are those of the thread."""
    going = Talk(AnthropicRules(in_turn(THINKS)), betas=[THREADS_BETA])
    reply = going.ask(thread={"type": "create"})
    for _ in range(2):
        results = [{"type": "tool_result", "tool_use_id": one["id"], "content": "12"} for one in reply["content"][1:]]
        follow = {"type": "continue", "previous_message_id": reply["id"]}
        sent = {"model": MODEL, "messages": [{"role": "user", "content": results}], "thread": follow}
        earlier, reply = reply, going.rules.reply(sent, going.betas)

    last = going.rules.requests[-1]
    assert [message["role"] for message in last.body["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert last.kept == ("signed-1", "signed-2")
    assert list(last.tools) == ["read"]
    assert reply["usage"]["input_tokens"] > earlier["usage"]["input_tokens"]


def test_a_thread_has_conditions() -> None:
    """It needs its beta, and a known message; what it holds is not sent again."""
    going = Talk(AnthropicRules(in_turn(THINKS)), betas=[THREADS_BETA])
    follow = {"type": "continue", "previous_message_id": "msg_9"}
    refused(lambda: going.rules.reply(going.body(thread={"type": "create"})), THREADS_BETA)
    refused(lambda: going.ask(thread=follow), "system: must be left out")
    going.fields = {"tools": [READ]}
    refused(lambda: going.ask(thread=follow), "tools: must be left out")
    going.fields = {}
    assert refused(lambda: going.ask(thread=follow), "no such message").status_code == 404


# State in the history.


def changing(*blocks: Item, **fields: Any) -> Item:
    """A system message among the messages."""
    return {"role": "system", "content": list(blocks), **fields}


def tool_change(kind: str, name: str = "grep") -> Item:
    """A change by name."""
    return {"type": f"tool_{kind}", "tool": {"type": "tool_reference", "name": name}}


INLINE: Item = {
    "type": "tool_addition",
    "tool": {"type": "tool_definition", "definition": {"name": "sail", "input_schema": {"type": "object"}}},
}
STATE_BETAS = (TOOL_CHANGES_BETA, INLINE_TOOLS_BETA, CLEAR_AT_BETA, COMPACTION_BETA)


def test_tool_changes_are_in_effect_from_their_place_on() -> None:
    """The tools of each request follow from its messages, and a compaction carries the net changes."""
    going = talk(1, betas=STATE_BETAS)
    going.items.append(changing(tool_change("addition"), tool_change("removal", "read"), INLINE))
    going.ask()
    before = going.rules.requests[-1].tools
    made = going.compact()
    going.items = [{"role": "assistant", "content": made["content"]}, {"role": "user", "content": "Go on."}]
    going.ask()

    assert list(before) == ["grep", "sail"]
    assert going.rules.requests[-1].tools == before
    assert made["content"][0]["tool_changes"] == [tool_change("addition"), INLINE, tool_change("removal", "read")]
    assert list(going.rules.requests[0].tools) == ["read"]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (changing(tool_change("addition", "fly")), "tool 'fly' is not defined"),
        (changing(tool_change("removal", "sail")), "tool 'sail' is not defined"),
        (changing({"type": "tool_addition"}), "is not defined"),
        ({"role": "user", "content": [tool_change("addition")]}, "only permitted in system messages"),
        ({"role": "user", "content": "Go on.", "clear_at": "never"}, "clear_at"),
        (changing({"type": "text", "text": "Be quick."}, clear_at="soon"), "clear_at"),
        (changing(), "it is empty"),
    ],
)
def test_changes_have_conditions(message: Item, words: str) -> None:
    """Tools are known by name, changes stand in system messages, and a date is one of two."""
    going = talk(1, betas=STATE_BETAS)
    going.items.append(message)

    refused(going.ask, words)


@pytest.mark.parametrize(
    ("message", "beta"),
    [
        (changing(tool_change("addition")), TOOL_CHANGES_BETA),
        (changing(INLINE), INLINE_TOOLS_BETA),
        (changing({"type": "text", "text": "Be quick."}, clear_at="never"), CLEAR_AT_BETA),
    ],
)
def test_changes_need_their_beta(message: Item, beta: str) -> None:
    """Each form of change has a beta of its own."""
    going = talk(1, betas=set(STATE_BETAS) - {beta})
    going.items.append(message)

    refused(going.ask, beta)


def test_dated_instructions_are_cleared() -> None:
    """A system message stays in the list; with a date it is shown until the user's next message."""
    going = talk(1, betas=STATE_BETAS)
    going.items += [
        changing({"type": "text", "text": "Always be brief."}),
        changing({"type": "text", "text": "Be quick today."}, clear_at="next_user_message"),
    ]
    going.step()
    going.ask()

    assert going.rules.requests[-2].instructions == ("Always be brief.", "Be quick today.")
    assert going.rules.requests[-1].instructions == ("Always be brief.",)
    assert going.rules.refusals == []


def test_a_removed_system_message_changes_the_prefix() -> None:
    """Instructions among the messages are part of what thinking is bound to."""
    going = talk(1, betas=STATE_BETAS)
    going.items.append(changing({"type": "text", "text": "Be quick today."}, clear_at="next_user_message"))
    going.step()
    del going.items[3]

    refused(going.ask, "messages.3.content.0")


# Odd requests.


@pytest.mark.parametrize(
    "messages", [None, "hi", [], [3], [{"content": "hi"}], [{"role": "assistant", "content": "hi"}]]
)
def test_broken_messages_are_refused(messages: Any) -> None:
    """A request without a list of messages is refused, not an error of the server."""
    with served(AnthropicRules()) as client, pytest.raises(anthropic.BadRequestError):
        client.messages.create(model=MODEL, max_tokens=9, messages=messages)


@pytest.mark.parametrize("field", ["thinking", "thread", "compaction", "tools", "system"])
def test_fields_of_another_type_are_no_error_of_the_server(field: str) -> None:
    """A field of the wrong type is refused or ignored."""
    for value in (3, "x", ["x"], {"block_binding": 3}):
        rules = AnthropicRules()
        rules(_asked({"model": MODEL, "messages": [{"role": "user", "content": "hi"}], field: value}))
        assert len(rules.requests) == 1


def _asked(body: Item) -> ScriptedRequest:
    return ScriptedRequest("/v1/messages", {"anthropic-beta": COMPACTION_BETA}, body, "anthropic-messages")


def test_the_scripts_own_failures_pass() -> None:
    """What the script answers besides replies reaches the client."""
    going = Talk(AnthropicRules(in_turn(Fail(529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}))))

    assert refused(going.ask, "Overloaded").status_code == 529
    with pytest.raises(AssertionError, match="no reply"):
        Talk(AnthropicRules(in_turn(Hang(1)))).ask()


# As the SDKs see it.


@pytest.mark.slow
@pytest.mark.parametrize("streams", [False, True])
def test_the_sdk_reads_thinking_and_compactions(streams: bool) -> None:
    """Whole or streamed, the SDK gives back what the next request may hold."""
    rules = AnthropicRules(in_turn(THINKS))
    messages: list[Any] = [{"role": "user", "content": "Count the ships."}]
    with served(rules) as client:

        def ask(**fields: Any) -> Any:
            body: Any = {"model": MODEL, "max_tokens": 99, "messages": messages, "betas": [COMPACTION_BETA], **fields}
            if not streams:
                return client.beta.messages.create(**body)
            with client.beta.messages.stream(**body) as events:
                return events.get_final_message()

        def take(message: Any) -> list[Item]:
            content: list[Item] = message.model_dump(mode="json", exclude_none=True)["content"]
            for block in content:
                block.pop("parsed_output", None)
            return content

        for _ in range(2):
            reply = take(ask())
            messages.append({"role": "assistant", "content": reply})
            results = [{"type": "tool_result", "tool_use_id": one["id"], "content": "12"} for one in reply[1:]]
            messages.append({"role": "user", "content": results})
        made = ask(compaction=SUMMARISE)
        reply = take(ask())
        results = [{"type": "tool_result", "tool_use_id": one["id"], "content": "12"} for one in reply[1:]]
        messages[:] = [
            {"role": "assistant", "content": take(made)},
            {"role": "assistant", "content": reply},
            {"role": "user", "content": results},
        ]
        last = ask()

    assert made.stop_reason == "compaction"
    assert made.usage.iterations[0].type == "compaction"
    assert last.stop_reason == "tool_use"
    assert rules.refusals == []
    assert rules.requests[-1].kept == ("signed-3",)


@pytest.mark.slow
def test_dropped_thinking_is_reported_in_a_stream() -> None:
    """The first event of a stream lists what was removed."""
    going = talk(1, betas=[BINDING_BETA], thinking=DROPS)
    body: Any = going.body(system="Be quick.", betas=[BINDING_BETA])
    with served(going.rules) as client, client.beta.messages.stream(**body) as events:
        message = events.get_final_message()

    assert message.input_transformations is not None
    assert [one.reason for one in message.input_transformations] == ["prefix_binding_mismatch"]


@pytest.mark.slow
def test_openai_compacts() -> None:
    """`/responses/compact` gives all messages of the user and one sealed item, which a later request may hold."""
    items: list[Any] = [
        {"role": "user", "content": "Count the ships."},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Twelve."}]},
        {"role": "user", "content": "Again."},
    ]
    with (
        ScriptedServer(AnthropicRules(in_turn(Say("Twelve ships.")))) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client,
    ):
        made = client.responses.compact(model="gpt-5", input=items)
        plain = client.responses.compact(model="gpt-5", input="Count.")
        held: Any = [one.model_dump(mode="json", exclude_none=True, warnings=False) for one in made.output]
        reply = client.responses.create(model="gpt-5", input=held)

    assert [getattr(one, "role", one.type) for one in made.output] == ["user", "user", "compaction"]
    assert made.usage.input_tokens > 0
    assert held[-1]["encrypted_content"]
    assert len(plain.output) == 2
    assert reply.output_text == "Twelve ships."
