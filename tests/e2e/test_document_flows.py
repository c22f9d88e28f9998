"""What documents 000, 001, 002 and 004 describe, from the first overflow to the request after the compaction.

The agent's own loop runs against a server spoken to by the official SDKs, with the session in SQLite and a plugin that has a
say. The numbers are those of the documents' worked cases.
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import groupby

import pytest
from msgspec import Struct

from infold.agent.agents import AGENTS, BUILD, default_rules, find_agent
from infold.agent.events import StepFinished, ToolAnswered
from infold.agent.permissions import DENY_ALL
from infold.core.budget import budget_for
from infold.core.compact import CONTINUE_TEXT
from infold.core.entries import Checkpoint, MessageEntry
from infold.core.events import Compacted, SummaryProgressed
from infold.core.messages import (
    CompactionPart,
    TextPart,
    UserMessage,
    WorkPath,
    is_compaction_request,
)
from infold.core.policy import preset
from infold.core.summary_request import COMPACTION_AGENT, Additions, instruction
from infold.core.view import filter_compacted, view
from infold.errors import UsageError
from infold.stores.sqlite import SqliteStore
from infold.testing.script import Say, ScriptedRequest

from .document_cases import CASES, CONTINUE, FIRST, SECOND, THIRD, Case
from .document_scenes import (
    NOTES,
    RULES,
    Adder,
    Scene,
    Script,
    fetches,
    is_for_notes,
    lines_of,
    playing,
    says,
    shown,
    system_of,
)

pytestmark = pytest.mark.slow


LATER_NOTES = "The harbour log was read to its last page, and the user has asked for nothing else."
PROMPTS = ("Read page one.", "Read page two.", "Read page three.", "Read page four.")
BRIEF = "Answer in one line."
"""What the third and the fourth prompt say for the system prompt."""


class Played(Struct, frozen=True):
    """Four prompts under a preset, with an overflow in the third and in the fourth."""

    case: Case
    scene: Scene
    plugins: tuple[Adder, Adder]
    requests: tuple[ScriptedRequest, ...]

    @property
    def notes(self) -> tuple[ScriptedRequest, ...]:
        """The two requests for a summary."""
        return self.scene.asked_for_notes

    @property
    def asked(self) -> UserMessage:
        """The first durable request."""
        return self.scene.durable_requests()[0]

    @property
    def checkpoint(self) -> Checkpoint:
        """The first compaction."""
        return self.scene.checkpoints()[0]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.preset)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The whole play."""
    case: Case = request.param
    script = Script(
        *(fetches(6_000), says("Page one is read.")),
        *(fetches(6_000), says("Page two is read.")),
        *(fetches(6_000), fetches(10, case.below), fetches(10, case.over), says()),
        *(fetches(9_000, case.over), says("Page four is read.")),
    )
    script.notes.append(Say(LATER_NOTES))
    plugins = Adder("Name every page.", "Name what was unusual."), Adder("Say who is on duty.")
    folder = tmp_path_factory.mktemp(case.preset)
    with playing(folder, script, case.preset, case.window, *plugins, wire=case.wire) as (loop, scene):
        for prompt in PROMPTS:
            assert loop.run(prompt, system=BRIEF if prompt in PROMPTS[2:] else "").ending == "done"
        yield Played(case, scene, plugins, scene.requests)


# Overflow, and the durable request.


def test_a_compaction_begins_where_the_document_says(played: Played) -> None:
    """S1.4, S1.5, S1.6, S1.9, S5.1: not below the worked case's number and at once above it; never twice for one report (B9)."""
    kinds = [(kind, len(list(group))) for kind, group in groupby(map(is_for_notes, played.requests))]
    steps = [step.usage for step in played.scene.heard(StepFinished)]

    assert budget_for(played.case.window, preset(played.case.preset)).usable_tokens == played.case.usable
    assert kinds == [(False, 7), (True, 1), (False, 2), (True, 1), (False, 1)]
    assert [usage.context if usage else 0 for usage in steps[5:7]] == [
        played.case.below.context,
        played.case.over.context,
    ]


def test_the_step_that_overflows_is_finished_first(played: Played) -> None:
    """S5.2, B7: the tools of the reply that fills the window are run, and what they said is folded or kept with it."""
    kinds = [type(told) for told in played.scene.told if isinstance(told, ToolAnswered | Compacted)]

    assert kinds == [*[ToolAnswered] * 5, Compacted, ToolAnswered, Compacted]


def test_the_request_for_it_is_durable(played: Played) -> None:
    """S3.1: when the model is asked, another process can read the request: for whom, since when, asked for by no person."""
    (*before, asked), (*_, again) = (
        [entry.message for entry in seen if isinstance(entry, MessageEntry)] for seen in played.scene.script.seen
    )

    assert isinstance(asked, UserMessage)
    assert asked == played.asked
    assert (asked.agent, asked.model) == (BUILD.name, played.scene.model.ref)
    assert asked.created_ms is not None
    assert asked.created_ms > max(message.created_ms or 0 for message in before)
    assert [(part.id, part.auto) for part in asked.parts if isinstance(part, CompactionPart)] == [("part-18", True)]
    assert isinstance(again, UserMessage)
    assert (again.agent, again.model) == (asked.agent, asked.model)
    assert not any(isinstance(entry, Checkpoint) for entry in played.scene.script.seen[0])


def test_its_ids_ascend(played: Played) -> None:
    """S3.1: each request's id, and its part's, is made of the place it has in the session."""
    entries = played.scene.entries()
    asked = [
        (n, entry.message)
        for n, entry in enumerate(entries)
        if isinstance(entry, MessageEntry) and is_compaction_request(entry.message)
    ]

    assert [message.id for _, message in asked] == [f"compact-{n}" for n, _ in asked]
    assert [part.id for _, message in asked for part in message.parts if isinstance(part, CompactionPart)] == [
        f"part-{n}" for n, _ in asked
    ]


# The hidden agent and the hooks.


def test_a_hidden_agent_without_tools_is_asked(played: Played) -> None:
    """S3.2, S3.3: the summariser has a system prompt of its own and nothing beside it, no tools, and the user's model."""
    for asked in played.notes:
        assert system_of(asked) == COMPACTION_AGENT.system_text
        assert not asked.body.get("tools")
        assert asked.body.get("model", played.scene.model.ref.id) == played.scene.model.ref.id
        assert asked.stream
    assert COMPACTION_AGENT.is_hidden
    assert COMPACTION_AGENT.name in AGENTS
    assert default_rules(COMPACTION_AGENT) == DENY_ALL
    with pytest.raises(UsageError, match=r"choose one of build, plan, talk$"):
        find_agent(COMPACTION_AGENT.name)


def test_it_reads_the_history_and_then_what_it_is_asked(played: Played) -> None:
    """S3.4: 1.1.x and 002 send all since the last checkpoint one by one, 1.18 what is folded as one text without its tail;
    then comes one request for a summary from which the work can go on.
    """
    first, second = map(shown, played.notes)
    asks = instruction(contexts_of(played))
    if preset(played.case.preset).summary.shows == "messages":
        assert first == [*FIRST, *SECOND, *THIRD, f"user: {asks}"]
        assert second[:2] == played.case.shows_notes(NOTES)
        assert all(PROMPTS[0] not in line for line in second)
        return
    (record,), (again,) = first, second
    kept = {line.partition(": ")[2] for line in played.case.tail if line.startswith("user: ")}

    assert [prompt for prompt in PROMPTS[:3] if prompt in record] == [p for p in PROMPTS[:3] if p not in kept]
    assert record.endswith(f"</record>\n\n{asks}")
    assert f"<earlier-notes>\n{NOTES}\n</earlier-notes>" in again
    assert PROMPTS[0] not in again


def contexts_of(played: Played) -> Additions:
    """What all plugins add."""
    return Additions(contexts=tuple(text for plugin in played.plugins for text in plugin.answer.contexts))


def test_plugins_hear_of_it_first_and_are_told_after(played: Played) -> None:
    """S3.5: each plugin is asked by the hook's old name and adds its contexts in order; later each hears of the checkpoint."""
    asked = shown(played.notes[0])[-1]
    places = [asked.index(text) for text in contexts_of(played).contexts]

    assert places == sorted(places)
    for plugin in played.plugins:
        assert [occasion.reason for occasion in plugin.occasions] == ["trigger", "trigger"]
        assert [one.text for one in plugin.committed] == [one.text for one in played.scene.checkpoints()]
    occasion = played.plugins[0].occasions[0]
    assert occasion.usable_tokens == played.case.usable
    assert [*lines_of(occasion.head), *played.case.tail] == [*FIRST, *SECOND, *THIRD]


# The summary, and what is told of it.


def test_the_summary_is_a_message_with_all_its_fields(played: Played) -> None:
    """S3.6: an assistant message of the compaction agent, under its request, with folder, usage, cost, model and time."""
    summary, asked, model = played.checkpoint.summary, played.asked, played.scene.model.ref
    assert summary is not None
    root = str(played.scene.folder)

    assert (summary.id, summary.parent_id) == (f"summary-of-{asked.id}", asked.id)
    assert (summary.summary, summary.mode, summary.agent) == (True, "compaction", "compaction")
    assert summary.parts == (TextPart(played.case.prefix + NOTES),)
    assert (summary.path, summary.model, summary.finish) == (WorkPath(root, root), model, "stop")
    assert summary.usage is not None
    assert summary.usage.prompt == played.notes[0].tokens
    assert summary.usage.output > 0
    assert summary.cost > 0
    assert summary.created_ms is not None
    assert summary.created_ms >= (asked.created_ms or 0)
    assert played.checkpoint.request == asked


def test_the_summary_is_streamed_and_then_told_of(played: Played) -> None:
    """S3.10, S3.7: the pieces come as they are written, then one event tells whose session was compacted, why and how."""
    first, second = ((index, told) for index, told in enumerate(played.scene.told) if isinstance(told, Compacted))
    pieces = [told.text for told in played.scene.told[: first[0]] if isinstance(told, SummaryProgressed)]
    event = first[1]

    assert "".join(pieces) == NOTES
    assert len(pieces) > 1
    assert (event.session_id, event.reason, event.outcome) == ("s", "trigger", "summarised")
    assert (event.summariser, event.cost) == (played.scene.model.ref.id, played.checkpoint.cost)
    assert event.tokens_after < event.tokens_before
    assert event.ratio == event.tokens_after / event.tokens_before
    assert (event.tokens_before, event.tokens_after) == (
        played.checkpoint.tokens_before,
        played.checkpoint.tokens_after,
    )
    assert event.duration_ms >= 0
    assert second[1].reason == "trigger"


# The view after it.


def test_the_next_request_is_the_summary_the_tail_and_a_word_to_go_on(played: Played) -> None:
    """S4.1, S4.4, S3.8: the request and its summary, what the document keeps, under OpenCode's presets a message to go on."""
    after = played.requests[8]
    added = [
        entry.message
        for entry in played.scene.entries()
        if isinstance(entry, MessageEntry) and entry.message.id.startswith("continue-")
    ]
    went_on = [CONTINUE] if played.case.continues else []

    assert shown(after) == [*played.case.shows_notes(NOTES), *played.case.tail, *went_on]
    assert bool(added) is played.case.continues
    for message in added:
        assert isinstance(message, UserMessage)
        assert message.parts == (TextPart(CONTINUE_TEXT, synthetic=True),)
        assert (message.agent, message.model) == (BUILD.name, played.scene.model.ref)


def test_the_main_agent_is_itself_again(played: Played) -> None:
    """S3.3, S4.4: its prompt, the project's rules, and what the last user message says for it, folded or not; its tools too."""
    before, after = played.requests[6], played.requests[8]

    assert system_of(after) == system_of(before)
    assert system_of(after) == "\n\n".join((BUILD.system_text, f"Instructions from AGENTS.md:\n\n{RULES}", BRIEF))
    assert after.body["tools"] == before.body["tools"]


def test_a_second_compaction_stands_for_the_first(played: Played) -> None:
    """S4.1, B3: only the newest request and summary open the view."""
    last = shown(played.requests[-1])

    assert last[:2] == played.case.shows_notes(LATER_NOTES)
    assert NOTES not in " ".join(last)
    assert (last[-1] == CONTINUE) is played.case.continues


def test_another_process_reads_the_same(played: Played) -> None:
    """S4.1: the session read anew stands as it stood: the newest request, its summary, and what came after."""
    scene, policy = played.scene, preset(played.case.preset)
    before = scene.session.log
    with closing(SqliteStore(scene.folder / "sessions.sqlite3")) as store:
        scene.work(store, played.case.preset, played.case.window)
        read = scene.session.log

    assert view(read, policy.summary) == view(before, policy.summary)
    assert [message.id for message in filter_compacted(read)[:2]] == [
        scene.durable_requests()[-1].id,
        f"summary-of-{scene.durable_requests()[-1].id}",
    ]
