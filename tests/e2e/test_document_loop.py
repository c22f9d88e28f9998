"""How an agent's loop goes through a compaction as documents 000, 001, 002 and 004 have it, in whatever state it meets one."""

from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from infold.agent.events import TextReceived
from infold.core.budget import Window
from infold.core.entries import MessageEntry, Pruning
from infold.core.events import Compacted, Pruned, SummaryProgressed, SummaryRejected
from infold.core.messages import ToolResultPart, Usage
from infold.core.policy import preset
from infold.core.summary_request import SEVEN_SECTIONS, Additions, instruction
from infold.plugins.hooks import hook
from infold.plugins.runner import installed_plugins
from infold.ports import CompactionContext, Veto
from infold.stores.sqlite import SqliteStore
from infold.testing.script import Fail, ScriptedAnswer

from .document_cases import CASES, CONTINUE, Case
from .document_scenes import (
    GOES_ON,
    MODELS,
    NOTES,
    Adder,
    Scene,
    Script,
    calls,
    fetches,
    is_for_notes,
    playing,
    says,
    shown,
    system_of,
)

pytestmark = pytest.mark.slow

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.preset)


def order(scene: Scene) -> list[str]:
    """Who was asked, request by request."""
    return ["notes" if is_for_notes(request) else "agent" for request in scene.requests]


# Overflow at the end of a turn.


@each_case
def test_a_last_reply_that_overflows_ends_in_a_compaction(case: Case, tmp_path: Path) -> None:
    """S5.2, S3.8, S3.9: it is compacted at once and not at the next prompt, and the loop is entered again to go on."""
    script = Script(fetches(20_000), says("Page one is read.", case.over), says("Nothing is left to do."))
    with playing(tmp_path, script, case.preset, case.window, wire=case.wire) as (loop, scene):
        ended = loop.run("Read page one.")

        assert order(scene) == ["agent", "agent", "notes", "agent"]
        assert (ended.ending, ended.text) == ("done", "Nothing is left to do.")
        assert shown(scene.requests[-1])[:2] == case.shows_notes(NOTES)
        assert shown(scene.requests[-1])[-1] == CONTINUE
        assert "".join(told.text for told in scene.heard(TextReceived)) == "Page one is read.Nothing is left to do."


@each_case
def test_a_last_reply_just_below_ends_the_turn(case: Case, tmp_path: Path) -> None:
    """S1.4, S1.5, S1.9: at the worked case's number less the least there is, nothing is compacted."""
    script = Script(fetches(20_000), says("Page one is read.", case.below))
    with playing(tmp_path, script, case.preset, case.window, wire=case.wire) as (loop, scene):
        assert loop.run("Read page one.").text == "Page one is read."
        assert order(scene) == ["agent", "agent"]


@each_case
def test_a_session_that_is_told_to_leave_it_is_left(case: Case, tmp_path: Path) -> None:
    """S1.1: with automatic compaction off, no overflow leads to one, in the middle of a turn or at its end."""
    policy = replace(preset(case.preset), auto=False)
    script = Script(fetches(20_000, case.over), says("Page one is read.", case.over))
    with playing(tmp_path, script, policy, case.window, wire=case.wire) as (loop, scene):
        assert loop.run("Read page one.").ending == "done"
        assert order(scene) == ["agent", "agent"]
        assert scene.checkpoints() == []


class Objecting:
    """A plugin that wants no compaction now, or no word to go on after one."""

    def __init__(self, *, vetoes: bool) -> None:
        self.vetoes = vetoes

    @hook("compaction.before")
    def objects(self, occasion: CompactionContext) -> Veto | None:
        """Say that now is not the time."""
        return Veto(f"not before the {occasion.reason} is discussed") if self.vetoes else None

    @hook("experimental.compaction.autocontinue")
    def goes_on(self) -> bool:
        """Say whether the model may be asked to go on."""
        return self.vetoes


@each_case
@pytest.mark.parametrize("vetoes", [True, False])
def test_a_plugin_may_end_it_there(case: Case, vetoes: bool, tmp_path: Path) -> None:
    """S3.5, S3.9: without a compaction, or without a word to go on after one, the last reply was the last."""
    script = Script(fetches(20_000), says("Page one is read.", case.over), says("Too much."))
    plugin = Objecting(vetoes=vetoes)
    with playing(tmp_path, script, case.preset, case.window, plugin, wire=case.wire) as (loop, scene):
        assert loop.run("Read page one.").ending == "done"
        assert order(scene) == ["agent", "agent", *([] if vetoes else ["notes"])]
        assert len(scene.heard(Compacted)) == (not vetoes)


# The hooks.


@each_case
def test_a_replacement_replaces_the_prompt_and_all_contexts(case: Case, tmp_path: Path) -> None:
    """S3.5: where a plugin brings a prompt of its own, that is all the summariser is asked."""
    script = Script(fetches(20_000), says("Page one is read.", case.over), says())
    plugins = Adder("Name every page."), Adder(replacement="Tell me about the harbour.")
    with playing(tmp_path, script, case.preset, case.window, *plugins, wire=case.wire) as (loop, scene):
        loop.run("Read page one.")
        asked = shown(scene.asked_for_notes[0])[-1]

        assert asked.endswith(("user: Tell me about the harbour.", "</record>\n\nTell me about the harbour."))
        assert "Name every page." not in asked
        assert instruction(Additions()) not in asked


def test_the_bundled_plugin_asks_for_seven_sections(tmp_path: Path) -> None:
    """S3.5: its template stands after the request for notes."""
    case = CASES[0]
    script = Script(fetches(20_000), says("Page one is read.", case.over), says())
    plugins = installed_plugins(["seven-sections"])
    with playing(tmp_path, script, case.preset, case.window, *plugins, wire=case.wire) as (loop, scene):
        loop.run("Read page one.")

        assert shown(scene.asked_for_notes[0])[-1].endswith(instruction(Additions(contexts=(SEVEN_SECTIONS,))))


# A compaction that does not come to its end.


def test_an_aborted_compaction_ends_the_loop_and_is_taken_up_first(tmp_path: Path) -> None:
    """S3.9, S4.2, S5.1: what was asked for waits; the next prompt begins with it, and is answered then."""
    case = CASES[0]
    script = Script(fetches(20_000, case.over), says("Page one is read."), says("Page two is read."))

    def interrupt(told: object) -> None:
        if isinstance(told, SummaryProgressed):
            scene.watch = lambda _: None
            raise KeyboardInterrupt

    with playing(tmp_path, script, case.preset, case.window, wire=case.wire) as (loop, scene):
        scene.watch = interrupt
        assert loop.run("Read page one.").ending == "aborted"
        assert (scene.checkpoints(), len(scene.durable_requests())) == ([], 1)
        assert scene.entries()[-1] == MessageEntry(scene.durable_requests()[0])

        with closing(SqliteStore(tmp_path / "sessions.sqlite3")) as store:
            later = scene.work(store, case.preset, case.window)
            assert later.run("Read page two.").ending == "done"
        assert order(scene) == ["agent", "notes", "notes", "agent"]
        assert len(scene.durable_requests()) == len(scene.checkpoints()) == 1
        assert shown(scene.requests[-1]) == [*case.shows_notes(NOTES), "user: Read page two.", CONTINUE]


OPENCODE = tuple(case for case in CASES if case.preset.startswith("opencode"))


@pytest.mark.parametrize("case", OPENCODE, ids=lambda case: case.preset)
def test_a_failed_summary_ends_the_loop_with_stop(case: Case, tmp_path: Path) -> None:
    """S3.9, B36: nothing is folded, no compaction is told of but the model's error is, and the next prompt begins with it."""
    script = Script(fetches(20_000), says("Page one is read.", case.over), says("Page two is read."))
    script.notes[0] = Fail(400)
    with playing(tmp_path, script, case.preset, case.window, wire=case.wire) as (loop, scene):
        ended = loop.run("Read page one.")

        assert (ended.ending, order(scene)) == ("stop", ["agent", "agent", "notes"])
        assert "scripted failure" in ended.problem
        assert (scene.heard(Compacted), scene.checkpoints()) == ([], [])
        assert [event.faults for event in scene.heard(SummaryRejected)] == [("failed",)]

        script.notes[0] = says(NOTES)
        assert loop.run("Read page two.").ending == "done"
        assert order(scene)[3:] == ["notes", "agent"]
        assert len(scene.checkpoints()) == len(scene.durable_requests()) == 1


@pytest.mark.parametrize("case", OPENCODE, ids=lambda case: case.preset)
@pytest.mark.parametrize("answer", [says(""), says("Page one wa", finish="length"), calls("fetch", tokens=1)])
def test_an_answer_that_is_no_summary_ends_the_loop_too(case: Case, answer: ScriptedAnswer, tmp_path: Path) -> None:
    """S1.0, S3.9: an empty, cut-off or tool-calling answer is a failed summary, for which the model is asked twice."""
    script = Script(fetches(20_000), says("Page one is read.", case.over))
    script.notes[0] = answer
    with playing(tmp_path, script, case.preset, case.window, wire=case.wire) as (loop, scene):
        assert loop.run("Read page one.").ending == "stop"
        assert order(scene) == ["agent", "agent", "notes", "notes"]
        assert scene.checkpoints() == []


@each_case
@pytest.mark.parametrize("written", ["summary", "Wrote tests/test_never_seen.py.", "I'm sorry, I can't."])
def test_whatever_is_written_to_its_end_is_accepted_as_written(case: Case, written: str, tmp_path: Path) -> None:
    """S1.0: a document's preset has no judge of content: one word, a path that the history lacks and words of refusal stand."""
    script = Script(fetches(20_000), says("Page one is read.", case.over), says("Nothing is left to do."))
    script.notes[0] = says(written)
    with playing(tmp_path, script, case.preset, case.window, wire=case.wire) as (loop, scene):
        assert loop.run("Read page one.").ending == "done"
        assert shown(scene.requests[-1])[:2] == case.shows_notes(written)
        assert scene.heard(SummaryRejected) == []


def test_the_port_goes_on_without_a_summary(tmp_path: Path) -> None:
    """B10, S3.9: document 002 says nothing of a failed summary, so that code folds and the loop goes on."""
    case = CASES[2]
    script = Script(fetches(20_000), says("Page one is read.", case.over), says("Nothing is left to do."))
    script.notes[0] = Fail(400)
    with playing(tmp_path, script, case.preset, case.window, wire=case.wire) as (loop, scene):
        assert loop.run("Read page one.").text == "Nothing is left to do."
        (event,) = scene.heard(Compacted)

        assert (event.outcome, event.faults, event.safety) == ("folded", ("failed",), ())
        assert "Read page one." in shown(scene.requests[-1])[1]


def test_a_model_of_its_own_writes_under_its_own_name(tmp_path: Path) -> None:
    """S3.2, S3.6: where another model is configured for summaries, the summary tells its ids, not those of the user's model."""
    case = CASES[0]
    script = Script(fetches(20_000), says("Page one is read.", case.over), says())
    with playing(tmp_path, script, case.preset, case.window, wire="openai-chat") as (loop, scene):
        scene.summarises_with("anthropic-messages")
        with closing(SqliteStore(tmp_path / "sessions.sqlite3")) as store:
            loop = scene.work(store, case.preset, case.window)
            loop.run("Read page one.")
        summary = scene.checkpoints()[0].summary
        assert summary is not None

        assert (summary.model, scene.asked_for_notes[0].format) == (scene.summariser.ref, "anthropic-messages")
        assert scene.durable_requests()[0].model == scene.model.ref


# Pruning comes first.

OUTPUTS = (30_000, 25_000, 20_000, 15_000, 12_000, 8_000, 5_000)
"""Document 002's outputs of turns 3 to 9, in tokens; the tenth adds 3,000."""

FREED = 75_000
"""Those of turns 3, 4 and 5."""


def grown(tmp_path: Path, scene: Scene, case: Case, reported: int) -> None:
    """Turns 3 to 9, lived through with everything switched off; the last reply reports so much."""
    policy = preset(case.preset)
    off = replace(policy, auto=False, prune=replace(policy.prune, enabled=False))
    with closing(SqliteStore(tmp_path / "sessions.sqlite3")) as store:
        loop = scene.work(store, off, case.window)
        for number, tokens in enumerate(OUTPUTS, start=3):
            usage = Usage(reported, 0) if number == 9 else None
            scene.script.then(fetches(tokens), says(f"Turn {number} is over.", usage))
            loop.run(f"Begin turn {number}.")


PRUNING = CASES[:3]


@pytest.mark.parametrize("case", PRUNING, ids=lambda case: case.preset)
def test_the_worked_case_of_pruning(case: Case, tmp_path: Path) -> None:
    """S2.6, S2.7, S2.8, S4.3: in turn 10 the outputs of turns 3, 4 and 5 become the preset's stub; the store keeps them whole."""
    window, stub = Window(2_000_000, output_tokens=8_000), preset(case.preset).stub
    with playing(tmp_path, Script(), case.preset, window, wire=case.wire) as (_, scene):
        grown(tmp_path, scene, replace(case, window=window), 130_000)
        with closing(SqliteStore(tmp_path / "sessions.sqlite3")) as store:
            loop = scene.work(store, case.preset, window)
            scene.script.then(fetches(3_000), says())
            loop.run("Begin turn 10.")
        results = [line for line in shown(scene.requests[-1]) if line.startswith("gets")]
        (pruned,) = scene.heard(Pruned)
        entries = scene.entries()

        assert results == [*[f"gets {stub}"] * 3, "gets 15000", "gets 12000", "gets 8000", "gets 5000", "gets 3000"]
        assert (pruned.freed_tokens, len(pruned.targets)) == (FREED, 3)
        assert [entry.freed_tokens for entry in entries if isinstance(entry, Pruning) and entry.pruned_ms] == [FREED]
        assert sum(kept_tokens(entry) for entry in entries) == sum(OUTPUTS) + 3_000


def kept_tokens(entry: object) -> int:
    """What an entry holds of fetched pages, in tokens."""
    parts = entry.message.parts if isinstance(entry, MessageEntry) else ()
    return sum(len(part.output) // 4 for part in parts if isinstance(part, ToolResultPart))


@pytest.mark.parametrize(
    ("case", "reported", "compacts"),
    [
        (CASES[0], 168_000, False),
        (CASES[0], 168_001, True),
        (CASES[1], 192_000 + FREED - 1, False),
        (CASES[1], 192_000 + FREED, True),
        (CASES[2], 192_000 + FREED - 1, False),
        (CASES[2], 192_000 + FREED, True),
    ],
    ids=lambda value: value.preset if isinstance(value, Case) else str(value),
)
def test_pruning_comes_before_the_comparison(case: Case, reported: int, compacts: bool, tmp_path: Path) -> None:
    """S5.4, S1.6: 1.1.23 compares what was reported; 1.1.57 and proactive take off what pruning freed, to the token."""
    output = 32_000 if case is CASES[0] else 8_000
    with playing(tmp_path, Script(), case.preset, case.window, wire=case.wire) as (_, scene):
        window = Window(200_000, output_tokens=output)
        grown(tmp_path, scene, replace(case, window=Window(0)), reported)
        with closing(SqliteStore(tmp_path / "sessions.sqlite3")) as store:
            loop = scene.work(store, case.preset, window)
            scene.script.then(says())
            assert loop.run("Begin turn 10.").text == GOES_ON
        told = [type(event) for event in scene.told if isinstance(event, Pruned | Compacted)]

        assert told == [Pruned, *([Compacted] if compacts else [])]


# No request ends with a reply.


@pytest.mark.parametrize("wire", MODELS)
def test_what_was_cut_off_is_asked_to_go_on(wire: str, tmp_path: Path) -> None:
    """S5.3, B12: under `infold` too a reply that ends for length forces one compaction; the request after it ends with a word
    to go on, since no provider need accept one that ends with a reply.
    """
    script = Script(fetches(12_000), says("Cut off here. " * 30, finish="length"), says())
    with playing(tmp_path, script, "infold", Window(24_000), wire=wire) as (loop, scene):
        assert loop.run("Read page one.").text == GOES_ON

        assert [event.reason for event in scene.heard(Compacted)] == ["forced"]
        assert shown(scene.requests[-1])[-1] == CONTINUE


@pytest.mark.parametrize("wire", MODELS)
def test_an_aborted_reply_is_gone_on_from(wire: str, tmp_path: Path) -> None:
    """B12, B13: what a reply had said when it was aborted stands in the session, and a word to go on behind it."""
    script = Script(says("Page one is being read, line by line."), says())

    def interrupt(told: object) -> None:
        if isinstance(told, TextReceived):
            scene.watch = lambda _: None
            raise KeyboardInterrupt

    with playing(tmp_path, script, "infold", Window(64_000), wire=wire) as (loop, scene):
        scene.watch = interrupt
        assert loop.run("Read page one.", system="Be brief.").ending == "aborted"
        assert loop.go_on().text == GOES_ON
        lines = shown(scene.requests[-1])

        assert lines[0] == "user: Read page one."
        assert lines[1].startswith("assistant: Page one")
        assert lines[2:] == [CONTINUE]
        assert system_of(scene.requests[-1]).endswith("Be brief.")
