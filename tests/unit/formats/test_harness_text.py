"""Harness text under the user's role, and the marks of foreign histories."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.provider_rules import problems

from infold import Session, SessionSettings, fit, open_store
from infold.core.budget import Window
from infold.core.entries import MessageEntry, decode_entry, encode_entry
from infold.core.messages import (
    AssistantMessage,
    MessageId,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.policy import PRESETS, preset
from infold.formats.harness_text import OPENINGS, WRAPPERS, is_lone_command, mark_foreign, marks_of, split_harness_text
from infold.formats.registry import OPENAI_CHAT
from infold.transcripts.record import RecordedCompaction, RecordedSession, import_session
from infold.transcripts.registry import read_bytes
from infold.transcripts.write_opencode import to_opencode


def all_injected(text: str) -> bool:
    """Whether a harness wrote all of this text."""
    return all(piece.injected for piece in split_harness_text(text))


REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"


@pytest.mark.parametrize("name", [name for names in WRAPPERS.values() for name in names])
def test_every_known_wrapper_is_recognised(name: str) -> None:
    """A text that one known wrapper encloses is injected."""
    assert all_injected(f"\n <{name}>\nsome text\n</{name}>\n")


@pytest.mark.parametrize("opening", OPENINGS)
def test_every_known_opening_is_recognised(opening: str) -> None:
    """A text that begins with a known phrase is injected to its end."""
    text = f"{opening} and more"
    assert all_injected(text)
    assert [piece.injected for piece in split_harness_text(text)] == [True]


@pytest.mark.parametrize(
    "text", ["", "  ", "fix it", "<div>x</div>", "what does <system-reminder> do?", f"see {REMINDER}"]
)
def test_a_users_own_text_is_not_injected(text: str) -> None:
    """Markup, blanks and talk about wrappers are the user's."""
    assert not all_injected(text)


def test_text_beside_a_wrapper_stays_the_users() -> None:
    """A reminder below a request is split off, and the pieces joined are the text."""
    text = f"Fix the test.\n\n{REMINDER}\n"

    pieces = split_harness_text(text)

    assert [(piece.text, piece.injected) for piece in pieces] == [("Fix the test.\n\n", False), (f"{REMINDER}\n", True)]
    assert not all_injected(text)


def users(text: str) -> list[str]:
    """What of a text is the user's, after holding the pieces against the text."""
    pieces = split_harness_text(text)
    assert "".join(piece.text for piece in pieces) == text
    return [piece.text for piece in pieces if not piece.injected]


def test_a_commands_arguments_are_the_users() -> None:
    """What the user typed after a slash command is kept as the user's words, without its tags; an empty field is not."""
    assert all_injected("<command-name>/init</command-name>\n   <command-args></command-args>")
    assert users("<command-name>/goal</command-name>\n<command-args>ship it</command-args>") == ["ship it"]


@pytest.mark.parametrize("name", ["model", "plugin", "clear", "compact", "config", "login"])
def test_the_arguments_of_a_local_command_are_no_request(name: str) -> None:
    """A command that the agent carries out itself asks the model for nothing."""
    told = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    assert all_injected(f"{told}\n<command-args>opus</command-args>")


def test_what_a_command_stands_for_all_injected() -> None:
    """Text below a slash command is the command's to its end, whatever tags it holds; the arguments stay the user's."""
    command = "<command-message>pr</command-message>\n<command-name>/pr</command-name>"
    expansion = f"\n\n## Context\n\n{REMINDER}\n\nYou MUST do all of the above."
    assert users(command + expansion) == []
    assert users(f"{REMINDER}\n{command}\n<command-args>for #3</command-args>{expansion}") == ["for #3"]


@pytest.mark.parametrize(
    "command",
    [
        "<command-name>/model</command-name>\n<command-args>opus</command-args>",
        "<command-name>/own</command-name>\n<local-command-stdout>done</local-command-stdout>",
    ],
)
def test_what_is_said_after_a_local_command_is_the_users(command: str) -> None:
    """A command that was carried out stands for no text, so what follows was typed."""
    assert users(f"{command}\n\nNow fix it.") == ["\n\nNow fix it."]
    assert not is_lone_command(command)


def test_a_command_in_a_users_text_stands_for_nothing() -> None:
    """A user may quote a command and go on."""
    text = "What is this?\n<command-name>/pr</command-name>\nIt came by mail."
    assert users(text) == ["What is this?\n", "\nIt came by mail."]


def test_a_command_alone_announces_its_text() -> None:
    """What a command stands for comes next only where it is not there yet."""
    command = "<command-name>/pr</command-name>\n<command-args>for #3</command-args>\n"
    assert is_lone_command(command)
    assert not is_lone_command(f"{command}\n## Context")
    assert not is_lone_command("pr")


def test_lines_right_below_a_notification_are_the_harnesses() -> None:
    """A notification goes with the lines that touch it; after a blank line, and in the next wrapper, others speak."""
    notification = (
        "<task-notification>\n<result>a\n\nb</result>\n</task-notification>\nFull transcript available at: /tmp/a"
    )
    assert all_injected(notification)
    assert all_injected(f"{notification}\n{notification}\n")
    assert users(f"{notification}\n\nGo on.") == ["\n\nGo on."]


def test_arguments_never_closed_are_the_users() -> None:
    """A clipped field of arguments is no wrapper."""
    assert users("<command-args>ship it") == ["<command-args>ship it"]


def test_a_clipped_wrapper_counts_at_the_beginning_only() -> None:
    """A wrapper that never closes is injected where the text begins with it, else the user's."""
    assert all_injected("<environment_context>\n  <cwd>/work")
    assert not all_injected("Look:\n<environment_context>\n  <cwd>/work")


def test_wrappers_may_follow_one_another_on_a_line() -> None:
    """Neighbours need no line of their own."""
    assert all_injected("<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>")


def test_attributes_do_not_hide_a_wrapper() -> None:
    """A tag with attributes is the same tag."""
    assert all_injected('<ide_selection path="a.py" lines="1-2">x</ide_selection>')


def test_hostile_text_takes_linear_time() -> None:
    """Thousands of wrappers that never close are read in one pass."""
    assert not all_injected("x" + "\n<skill>" * 20_000)


@pytest.mark.parametrize("name", ["command-name", "command-args", "task-notification"])
def test_hostile_commands_take_linear_time(name: str) -> None:
    """Thousands of commands, their arguments and notifications are read in one pass too."""
    split_harness_text(f"<{name}>x</{name}>\nline\n" * 10_000)


MARKS = {"proactive": "[Conversation Summary]", "turn-window": "[COMPACTED_CONTEXT]"}


STUBS = {
    "opencode-1.1.23": "[Old tool result content cleared]",
    "opencode-1.1.57": "[output truncated by compaction]",
    "proactive": "[Output pruned]",
}


Item = dict[str, Any]


EVERY = marks_of(PRESETS.values())


def said(text: str, **fields: Any) -> AssistantMessage:
    """A reply."""
    return AssistantMessage(MessageId("a"), (TextPart(text),), **fields)


def read(name: str, content: str) -> list[Item]:
    """A turn in which something is read."""
    call = {"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"read {name}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": content},
        {"role": "assistant", "content": "ok"},
    ]


def talk(middle: list[Item]) -> list[Item]:
    """Three turns with large results, something, and three small turns."""
    old = [item for n in range(3) for item in read(f"o{n}", "word" * 30_000)]
    return [*old, *middle, *(item for n in range(3) for item in read(f"n{n}", "x"))]


def stubs_in(messages: list[Any], stub: str) -> int:
    """How many results say that they were cleared."""
    return sum(message.get("content") == stub for message in messages)


@pytest.mark.parametrize("mark", MARKS.values())
@pytest.mark.parametrize("shown", ["{} So it went.", "\n {}\nSo it went.", "{}"])
def test_a_reply_that_begins_with_a_mark_is_a_summary(mark: str, shown: str) -> None:
    """B26, S2.3: on import the marker that a document writes is known, and becomes a field."""
    (message,) = mark_foreign((said(shown.format(mark)),), EVERY)

    assert isinstance(message, AssistantMessage)
    assert message.foreign_summary
    assert decode_entry(encode_entry(MessageEntry(message))) == MessageEntry(message)


@pytest.mark.parametrize("mark", MARKS.values())
def test_a_system_message_that_begins_with_a_mark_is_a_summary(mark: str) -> None:
    """B26: a program wrote it, since a person has no system messages; one that has the mark in its midst is none."""
    summary, prompt = (
        SystemMessage(MessageId("s"), (TextPart(text),)) for text in (f"{mark}\nSo it went.", f"Begin with {mark}.")
    )
    marked, other = mark_foreign((summary, prompt), EVERY)

    assert marked == replace(summary, foreign_summary=True)
    assert other is prompt
    assert decode_entry(encode_entry(MessageEntry(marked))) == MessageEntry(marked)


@pytest.mark.parametrize("mark", MARKS.values())
def test_what_only_speaks_of_a_mark_is_none(mark: str) -> None:
    """B26: a person's words, a reply with the marker in its midst, one that calls a tool: none of these is a summary."""
    messages = (
        UserMessage(MessageId("u"), (TextPart(f"{mark} Say it so."),)),
        said(f"It begins with {mark}."),
        replace(said(f"{mark} Reading."), parts=(TextPart(f"{mark} Reading."), ToolCallPart("c", "read", "{}"))),
        said(f"{mark} So it went.", summary=True, finish="stop"),
    )

    assert all(after is before for after, before in zip(mark_foreign(messages, EVERY), messages, strict=True))
    assert mark_foreign(messages, marks_of((preset("infold"),))) is messages


@pytest.mark.parametrize("stub", STUBS.values())
def test_a_result_that_is_a_stub_was_cleared(stub: str) -> None:
    """B26, S2.5: a result that says nothing but the stub is known as cleared; one that quotes it is not."""
    results = tuple(
        ToolResultPart(f"c{n}", "read", text) for n, text in enumerate((stub, f"{stub}\n", f"{stub} it says"))
    )
    (message,) = mark_foreign((ToolMessage(MessageId("t"), results),), EVERY)

    assert [part.cleared for part in message.parts if isinstance(part, ToolResultPart)] == [True, True, False]


@pytest.mark.parametrize("role", ["assistant", "system", "developer"])
def test_pruning_stops_at_a_foreign_summary(role: str) -> None:
    """S2.3, S1.6: under the preset that writes the marker, nothing behind it is pruned; the request is the one that came."""
    summary = {"role": role, "content": "[Conversation Summary]\nThree files were read."}
    history = talk([summary])
    fitted = fit(history, window=2_000_000, policy="proactive")

    assert all(back is given for back, given in zip(fitted.messages, history, strict=True))
    assert fitted.report.after["summary"] > 0
    assert (
        stubs_in(
            fit(talk([{**summary, "role": "user"}]), window=2_000_000, policy="proactive").messages, "[Output pruned]"
        )
        == 2
    )


WIRES: dict[str, list[Item]] = {
    "anthropic-messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c{n}", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c{n}", "content": "{text}"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "{summary}"}]},
    ],
    "openai-responses": [
        {"type": "function_call", "call_id": "c{n}", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c{n}", "output": "{text}"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "{summary}"}]},
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "{text}"}}}]},
        {"role": "model", "parts": [{"text": "{summary}"}]},
    ],
}


"""A call, its result and a summary as each provider writes them."""


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("mark", ["[Conversation Summary]", "Not a mark."])
def test_a_foreign_summary_is_known_in_every_format(wire: str, mark: str) -> None:
    """B26, S2.3: all wire formats are read for marks, and the request below the trigger is the one that came."""

    def filled(item: Item, n: int) -> Item:
        text = json.dumps(item).replace("{n}", str(n)).replace("{text}", "word" * 30_000)
        made: Item = json.loads(text.replace("{summary}", f"{mark} Three files were read."))
        return made

    call, answer, summary = WIRES[wire]
    field = "parts" if wire == "gemini" else "content"
    turn = {"role": "user", field: [{"text": "go on"}] if wire == "gemini" else "go on"}
    history = [item for n in range(3) for item in (turn, filled(call, n), filled(answer, n))]
    history += [filled(summary, 0), turn, turn, turn]
    fitted = fit(history, window=2_000_000, policy="proactive", format=wire, environ={})
    known = mark == "[Conversation Summary]"

    assert (fitted.messages == history) == known
    assert ("summary" in fitted.report.after) == known


@pytest.mark.parametrize("name", STUBS)
def test_pruning_stops_at_a_foreign_stub(name: str) -> None:
    """S2.5: a result that was cleared before it came ends the walk, as one that infold cleared does."""

    def history(second: str) -> list[Item]:
        sizes = {"first": "word" * 30_000, "second": second, "third": "word" * 20_000, "fourth": "word" * 20_000}
        return [item for name, content in {**sizes, "fifth": "x", "sixth": "x"}.items() for item in read(name, content)]

    assert fit(history(STUBS[name]), window=2_000_000, policy=name).messages == history(STUBS[name])
    assert stubs_in(fit(history("nothing"), window=2_000_000, policy=name).messages, STUBS[name]) == 1


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"proactive"}))
def test_other_presets_do_not_know_the_marker(name: str) -> None:
    """B26: `[Conversation Summary]` is `proactive`'s alone; under every other preset it is a reply like any other."""
    history = talk([{"role": "assistant", "content": "[Conversation Summary] Three files were read."}])
    fitted = fit(history, window=2_000_000, policy=name, environ={})

    assert "summary" not in fitted.report.before


@pytest.mark.parametrize("bring", [Session.prepare, Session.prepare_new])
def test_a_session_knows_what_a_caller_brings(bring: Callable[..., Any]) -> None:
    """B26, S2.3: a foreign history that enters a session is read in the same way, also when the session is opened again."""
    history = talk([{"role": "assistant", "content": "[Conversation Summary] Three files were read."}])
    store, settings = open_store("memory"), SessionSettings(window=2_000_000, policy="proactive")
    session = Session(store, "s", settings)
    ready = bring(session, history)

    assert (ready.messages, ready.events) == (history, ())
    assert Session(store, "s", settings).log.message_index.summaries == [12]


def test_a_models_own_reply_is_not_read_for_marks() -> None:
    """B26: what is recorded in a session is not imported, whatever it begins with."""
    session = Session(open_store("memory"), "s", SessionSettings(window=2_000_000, policy="proactive"))
    session.prepare([{"role": "user", "content": "How do your summaries begin?"}])
    reply = {"role": "assistant", "content": "[Conversation Summary] is how they begin."}
    session.record({"choices": [{"message": reply, "finish_reason": "stop"}]})

    assert session.log.message_index.summaries == []


@pytest.mark.parametrize("name", MARKS)
def test_a_foreign_summary_is_folded_like_what_was_said(name: str) -> None:
    """S4.5, B3: past the trigger the foreign summary goes into the new one, which bears one marker, and pairs stay whole."""
    turns = [
        item
        for n in range(12)
        for item in ({"role": "user", "content": f"{n} " * 4_000}, {"role": "assistant", "content": "ok " * 4_000})
    ]
    history = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": f"{MARKS[name]} The keel is laid."},
        *turns,
        {"role": "user", "content": "On."},
    ]
    fitted = fit(history, window=Window(64_000, output_tokens=8_000), policy=name, environ={})

    assert fitted.report.changed
    assert problems(OPENAI_CHAT, fitted.messages) == ()
    assert [str(item["content"]).startswith(MARKS[name]) for item in fitted.messages].count(True) <= 1


@pytest.mark.parametrize("role", ["assistant", "system"])
@pytest.mark.parametrize("mark", MARKS.values())
def test_a_recorded_summary_is_a_compaction(mark: str, role: str) -> None:
    """B26: a record's marked summary is a compaction that happened, and OpenCode is told of it as one."""
    messages = [
        {"role": "user", "content": "Go."},
        {"role": role, "content": f"{mark} The keel is laid."},
        {"role": "user", "content": "On."},
    ]
    session = import_session(RecordedSession("s", tuple(_core(messages))))
    again = import_session(session)

    assert session.compactions == (RecordedCompaction(1, f"{mark} The keel is laid."),)
    assert again == session
    written = to_opencode(session)["messages"]
    assert [part["type"] for one in written for part in one["parts"]] == ["text", "compaction", "text", "text"]
    assert [one["info"].get("summary", False) for one in written] == [False, False, True, False]


def test_a_transcript_is_read_with_its_marks() -> None:
    """B26: every reader of foreign records knows the markers; infold's own log is not searched for them."""
    lines = [
        {"type": "user", "uuid": "1", "sessionId": "s", "message": {"role": "user", "content": "Go."}},
        {
            "type": "assistant",
            "uuid": "2",
            "sessionId": "s",
            "message": {
                "role": "assistant",
                "content": [{"type": "text", "text": "[COMPACTED_CONTEXT] The keel is laid."}],
            },
        },
    ]
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    (session,) = read_bytes(data, name="x", format="claude-code").sessions
    own = b"".join(
        encode_entry(MessageEntry(replace(m, foreign_summary=False) if isinstance(m, AssistantMessage) else m)) + b"\n"
        for m in session.messages
    )

    assert [one.summary for one in session.compactions] == ["[COMPACTED_CONTEXT] The keel is laid."]
    assert read_bytes(own, name="x").sessions[0].compactions == ()


def _core(items: list[Item]) -> Any:
    for n, item in enumerate(items):
        yield {"user": UserMessage, "assistant": AssistantMessage, "system": SystemMessage}[item["role"]](
            MessageId(f"m{n}"), (TextPart(item["content"]),)
        )
