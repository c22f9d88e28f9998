"""What a fold carries on as messages."""

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import compact, entries_for_summary
from infold.core.cut import Cut, native_cut, needs_definition
from infold.core.entries import Checkpoint, MessageEntry, decode_entry, encode_entry
from infold.core.gauge import PlanInputs
from infold.core.ledger import (
    ALL_BEFORE,
    COMMAND_STATE,
    DEFINITION,
    SKILL_STATE,
    SUMMARY_STATE,
    TOOL_STATE,
    beside_summary,
    carry_state,
)
from infold.core.log import Log, size_of_state
from infold.core.logged_message import is_clippable
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    fingerprint,
    is_provider_summary,
    is_signed,
    outline_fingerprint,
)
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.testing.builders import (
    log_of,
    numbered,
    replies,
    requests_compaction,
    session,
    summary,
    tokens_of_text,
    user,
)

NONE = MessageId("")


def system(*parts: TextPart, until_user: bool = False, settings: str = "") -> SystemMessage:
    """A system message inside the history."""
    return SystemMessage(NONE, parts, until_user=until_user, settings=settings)


def tool(name: str, *, defines: bool = False, note: str = "") -> TextPart:
    """A change of the tools."""
    key = f"{TOOL_STATE}{name}"
    return TextPart(f"{name}{note}", opaque=True, state=(key, f"{key}{DEFINITION}") if defines else (key,))


def block(text: str = "So far.", *state: str) -> AssistantMessage:
    """A summary of the provider's own."""
    return AssistantMessage(NONE, (ReasoningPart(text, '{"type":"compaction"}', (SUMMARY_STATE, *state)),))


def instructs(text: str, *keys: str) -> UserMessage:
    """A harness's instructions under the user's role."""
    return UserMessage(NONE, (TextPart(text, synthetic=True, state=keys),))


def carried(*head: Message, tail: tuple[Message, ...] = (), older: tuple[Message, ...] = ()) -> list[str]:
    """What of a head stays in force, part by part."""
    kept = carry_state(older, enumerate(head), tail)
    return [part.text for message in kept for part in message.parts if isinstance(part, TextPart | ReasoningPart)]


def test_a_newer_change_of_a_tool_replaces_an_older_one() -> None:
    """B33: of several changes of a tool the last stays, in one message or in several."""
    changes = system(tool("a", note="1"), tool("b"), tool("a", note="2"))

    assert carried(changes) == ["b", "a2"]
    assert carried(changes, system(tool("b", note="3"))) == ["a2", "b3"]


def test_a_definition_stays_for_references_to_it() -> None:
    """B33: a tool's newest definition stays although the tool was removed since."""
    assert carried(system(tool("a", defines=True)), system(tool("a", note="gone"))) == ["a", "agone"]


def test_tools_of_the_tail_replace_nothing() -> None:
    """B33: the tail's own changes of a tool may need those before them; its instructions replace the older ones."""
    assert carried(system(tool("a")), tail=(system(tool("a")),)) == ["a"]
    assert carried(instructs("old", "rules"), tail=(instructs("new", "rules"),)) == []


def test_a_text_holds_until_it_ends() -> None:
    """B33: a system text stays; one until the next user message goes with it, and leaves an equal one that stays."""
    now = system(TextPart("Be brief."), until_user=True)
    ever = system(TextPart("Be brief."), TextPart(" "), TextPart("hidden", ignored=True))

    assert carried(now) == ["Be brief."]
    assert carried(now, user()) == []
    assert carried(now, ToolMessage(NONE, ())) == []
    assert carried(now, tail=(user(),)) == []
    assert carried(ever, now, user(), ever) == ["Be brief."]
    assert carried(now, UserMessage(MessageId("continue-3"), ())) == ["Be brief."]


def test_tool_changes_outlive_the_text_next_to_them() -> None:
    """B33: only the text of a message ends with the next user message."""
    (kept,) = carry_state((), enumerate([system(TextPart("now"), tool("a"), until_user=True), user()]), ())

    assert kept == SystemMessage(MessageId("state-0"), (tool("a"),))


def test_the_newest_settings_stay() -> None:
    """B33: of several settings the newest are carried on, with or without words."""
    kept = carry_state(
        (), enumerate([system(settings="1"), system(TextPart("x"), settings="2"), system(settings="3")]), ()
    )

    assert [(message.id, message.settings) for message in kept if isinstance(message, SystemMessage)] == [
        ("state-1", ""),
        ("state-2", "3"),
    ]


def test_a_command_runs_until_the_person_speaks() -> None:
    """B33: a slash command and a skill stay with all their parts until the person's next message."""
    command = UserMessage(
        NONE, (TextPart("/press", state=(COMMAND_STATE,)), TextPart("How to press.", state=(COMMAND_STATE,)))
    )
    skill = instructs("How to prune.", SKILL_STATE)

    assert carried(command, skill) == ["/press", "How to press.", "How to prune."]
    assert carried(command, skill, user("thanks")) == []
    assert carried(command, command) == ["/press", "How to press."]


def test_a_summary_of_the_provider_replaces_the_one_before() -> None:
    """B33: the newest of the provider's summaries stays; one that has all state before it ends that state."""
    assert carried(instructs("rules", "r"), block("one"), block("two")) == ["rules", "two"]
    assert carried(instructs("rules", "r"), block("one", ALL_BEFORE), system(tool("a"))) == ["one", "a"]
    assert carried(system(tool("b")), older=(instructs("old", "r"), block("one", ALL_BEFORE))) == ["one", "b"]


INPUTS = PlanInputs(INFOLD, budget_for(Window(4_000), INFOLD), manual=True)


def folded(*drafts: Message) -> Log:
    """The log of a session after a compaction by hand."""
    return compact(session(*drafts), INPUTS).log


def test_a_view_begins_with_the_providers_summary() -> None:
    """B33: behind it come infold's checkpoint and what else stays in force."""
    long = tokens_of_text(400)
    log = folded(
        system(tool("z")),
        block("So far.", ALL_BEFORE),
        user(long),
        system(tool("a")),
        replies(long),
        user(long),
        replies("x"),
    )
    shown = view(log, INFOLD.summary)

    assert isinstance(log.checkpoint, Checkpoint)
    assert log.checkpoint == decode_entry(encode_entry(log.checkpoint))
    assert is_provider_summary(shown[0].parts[0])
    assert [message.id for message in shown[:3]] == ["state-1", f"checkpoint-{log.checkpoint_sequence}", "state-3"]
    assert size_of_state(log.state, log.rendering).measure > 0


def test_a_cut_is_behind_the_providers_summary() -> None:
    """B33: what is before the summary is ignored by the provider, so that a checkpoint there would be too."""
    log = session(user("a"), replies("b"), user("c"), block(), user("d"), replies("e"))

    assert [logged.cuttable for logged in log.live] == [False, False, False, False, True, True]


def test_settings_alone_are_sent() -> None:
    """B33: a message that only sets something is shown in a view that infold changed."""
    log = compact(
        session(user("a"), replies(tokens_of_text(900)), user("b"), system(settings="{}"), replies("c")), INPUTS
    ).log

    assert any(isinstance(message, SystemMessage) for message in view(log, INFOLD.summary))


def test_a_foreign_compaction_carries_state_on() -> None:
    """B33: the state of a head that another program summarised stays too."""
    messages = numbered((user("a"), system(tool("a")), replies("b"), requests_compaction(), summary("done")))
    answered = replace(messages[-1], parent_id=messages[-2].id)
    log = log_of((*messages[:-1], answered))

    assert log.checkpoint is not None
    assert [message.id for message in log.checkpoint.state] == ["state-1"]


def test_adopting_a_summary_twice_does_nothing() -> None:
    """B33: a list that begins with the provider's summary is the session's own from then on."""
    log = session(user("Never touch vendor/."), replies("b"))
    entries = entries_for_summary(log, block())
    adopted = log.extend(entries)

    assert [type(entry) for entry in entries] == [Checkpoint, MessageEntry]
    assert entries_for_summary(adopted, block()) == ()
    assert adopted.checkpoint is not None
    assert adopted.checkpoint.ledger.requests
    assert [message.id for message in view(adopted, INFOLD.summary)] == ["m0"]


@pytest.mark.parametrize(("one", "other"), [(block("one"), block("two")), (system(settings="1"), system(settings="2"))])
def test_state_is_part_of_what_a_message_says(one: Message, other: Message) -> None:
    """B33: summaries and settings that differ are not taken for the same; cache markers do not count."""
    marked = replace(block(), parts=(ReasoningPart("", '{"type":"compaction","cache_control":{}}', (SUMMARY_STATE,)),))

    if isinstance(one, SystemMessage):
        assert fingerprint(one) != fingerprint(other)
    assert fingerprint(marked) == fingerprint(block())
    assert outline_fingerprint("", [one]) == outline_fingerprint("", [one])
    assert not is_signed(block())


def test_a_block_that_sets_something_is_never_shortened() -> None:
    """B33: clipping leaves out neither a change of tools nor a part of it."""
    assert not is_clippable(tool("a"))
    assert is_clippable(TextPart("x", opaque=True))


def beside(state: tuple[Message, ...], native: Message, *tail: Message) -> list[list[str]]:
    """What of the state is shown with a summary of the provider's own, message by message."""
    shown = beside_summary(state, (native,), enumerate(tail, 50))
    return [[part.text for part in message.parts if isinstance(part, TextPart)] for message in shown]


def test_a_summary_with_the_tools_leaves_texts_and_definitions() -> None:
    """B33: behind the provider's own summary stand the instructions, and tools by definition as the tail left them."""
    state = carry_state(
        (),
        enumerate([
            block("old"), instructs("rules", "r"), system(tool("a"), TextPart("Be brief.")), system(settings="1"),
            system(tool("b", defines=True)),
        ]),
        (),
    )  # fmt: skip

    assert beside(state, block("new", ALL_BEFORE)) == [["rules"], ["Be brief."], [], ["b"]]
    assert beside(state, block("new", ALL_BEFORE), system(tool("b", note="gone"), tool("a", note="2")), user("x")) == [
        ["rules"],
        ["Be brief."],
        [],
        ["b"],
        ["bgone"],
    ]
    assert beside(state, block("new", ALL_BEFORE), system(settings="2"), instructs("new", "x"))[2:] == [["b"]]
    assert beside(state, block("new")) == [["rules"], ["a", "Be brief."], [], ["b"]]


def test_the_provider_summarises_nothing_that_the_tail_refers_to() -> None:
    """B33: its summary may leave out a tool's definition, so that the cut is before it or behind the last reference."""
    log = session(
        user("a"), system(tool("b", defines=True)), replies("c"), user("d"), replies("e"), user("f"), system(tool("b")),
        replies("g"), user("h"), replies("i"),
    )  # fmt: skip

    assert needs_definition(log, 4)
    assert not needs_definition(log, 9)
    assert not needs_definition(log, 1)
    assert native_cut(log, Cut.at(log, 4)) == Cut.at(log, 7)


def test_state_with_a_native_summary_stands_behind_the_tail() -> None:
    """B33: nothing comes between the provider's summary and the first kept message."""
    log = log_of(numbered((user("a"), system(TextPart("Be brief.")), replies("b"), user("c"), replies("d"))))
    rendering = replace(log.rendering, shows_native=True)
    state = carry_state((), [(1, log.live[1].message)], ())
    checkpoint = Checkpoint(
        "note", first_kept=2, native=(replace(block("n", ALL_BEFORE), id=MessageId("n")),), state=state
    )
    native = replace(log, rendering=rendering).append(checkpoint)

    assert [message.id for message in view(native, INFOLD.summary)] == ["n", "m2", "m3", "m4", "state-1", "note-5"]
    assert needs_definition(native, 1) is False
    later = native.append(MessageEntry(UserMessage(MessageId("m5"), (TextPart("e"),))))
    assert [message.id for message in view(later, INFOLD.summary)][4:] == ["state-1", "note-5", "m5"]
