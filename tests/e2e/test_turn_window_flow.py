"""Document 003's compaction, lived through by the agent's loop: trigger, target, attempts, `length` and both fallbacks."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from infold.agent.events import RunEnded
from infold.agent.loop import Loop
from infold.core.budget import Window
from infold.core.compact import CONTINUE_TEXT
from infold.core.entries import Checkpoint
from infold.core.events import Compacted, Pruned, SummaryProgressed, SummaryRejected
from infold.core.messages import CompactionPart
from infold.core.summary_request import COMPACTION_AGENT
from infold.testing.builders import tokens_of_text
from infold.testing.script import Fail, Say, ScriptedAnswer

from .document_scenes import MODELS, NOTES, Adder, Scene, Script, fetches, is_for_notes, playing, says, shown, system_of

pytestmark = pytest.mark.slow

WINDOW = Window(200_000, output_tokens=32_000)
"""What the model has; the preset sees 64,000 whatever that is."""

REPLY = "Read."
COMPACTED = f"assistant: [COMPACTED_CONTEXT]\n{NOTES}"
CONTINUE = f"user: {CONTINUE_TEXT}"


def prompt(number: int, tokens: int, reply: str = REPLY) -> str:
    """A prompt that makes a turn of that many tokens together with its reply."""
    said = f"{number:04}"
    return said + tokens_of_text(tokens - 1 - -(-len(reply) // 4)) + "x" * (-len(reply) % 4)


def run(loop: Loop, sizes: Sequence[int]) -> RunEnded:
    """Turns of these sizes in tokens, numbered from 1."""
    return [loop.run(prompt(number, tokens)) for number, tokens in enumerate(sizes, start=1)][-1]


def turns_in(scene: Scene, request: int = -1) -> list[str]:
    """Which turns a request shows, by their numbers."""
    return [line[6:10] for line in shown(scene.requests[request]) if line[6:10].isdecimal()]


def asked(scene: Scene) -> list[bool]:
    """Which requests were for a summary."""
    return [is_for_notes(request) for request in scene.requests]


# Trigger and target.


@pytest.mark.parametrize("wire", MODELS)
def test_the_worked_case(wire: str, tmp_path: Path) -> None:
    """S1.7, S4.5: the seventh turn of 8k takes it to 56k; turn 1 is summarised, six turns are over 32k, and three fit."""
    adder = Adder("Name every page.")
    with playing(tmp_path, Script(says(REPLY)), "turn-window", WINDOW, adder, wire=wire) as (loop, scene):
        assert run(loop, [8_000] * 7).ending == "done"
        record = shown(scene.asked_for_notes[0])[0].partition("</record>")[0]
        (checkpoint,) = scene.checkpoints()

        assert asked(scene) == [*[False] * 6, True, False]
        assert ("[user] 0001" in record, "[user] 0002" in record) == (True, False)
        assert COMPACTED in shown(scene.requests[-1])[:2]  # some providers want a user's word before it (B12)
        assert turns_in(scene) == ["0005", "0006", "0007"]
        assert shown(scene.requests[-1])[-1] == f"user: {prompt(7, 8_000)}"
        assert scene.heard(Pruned) == []
        check_stages(scene, checkpoint, adder)


def check_stages(scene: Scene, checkpoint: Checkpoint, adder: Adder) -> None:
    """S3.1, S3.2, S3.5, S3.6, S3.7, S3.10: request, hidden agent, hook, summary, pieces and event as in every document."""
    (durable,), (notes,), (event,) = scene.durable_requests(), scene.asked_for_notes, scene.heard(Compacted)
    summary = checkpoint.summary
    assert summary is not None

    assert (durable.agent, durable.model) == ("build", scene.model.ref)
    assert [part.auto for part in durable.parts if isinstance(part, CompactionPart)] == [True]
    assert (system_of(notes), notes.body.get("tools")) == (COMPACTION_AGENT.system_text, None)
    assert "Name every page." in shown(notes)[0]
    assert [occasion.reason for occasion in adder.occasions] == ["trigger"]
    assert (summary.parent_id, summary.summary, summary.agent, summary.mode) == (
        *(durable.id, True),
        *("compaction", "compaction"),
    )
    assert (summary.model, summary.usage is not None, summary.path is not None) == (scene.model.ref, True, True)
    assert "".join(piece.text for piece in scene.heard(SummaryProgressed)) == NOTES
    assert (event.session_id, event.reason, event.outcome) == ("s", "trigger", "summarised")


@pytest.mark.parametrize(("last", "compacts"), [(5_999, False), (6_000, True)])
def test_it_acts_at_three_quarters_of_its_window(last: int, compacts: bool, tmp_path: Path) -> None:
    """S1.7: 48,000 of 64,000 is the trigger, reached by the estimate of all that was said, whatever usage is reported."""
    with playing(tmp_path, Script(says(REPLY)), "turn-window", WINDOW) as (loop, scene):
        run(loop, [6_000] * 7)
        scene.script.then(says(""), says("End."))
        loop.run(prompt(8, last, reply=""))

        assert any(asked(scene)) == compacts


def test_six_turns_within_the_target_stay(tmp_path: Path) -> None:
    """S4.5, S4.4: summary and six turns within 32,000 are the new history, word for word."""
    sizes = [30_002, *[4_000] * 4, 1_000, 1_000]
    with playing(tmp_path, Script(says(REPLY)), "turn-window", WINDOW) as (loop, scene):
        run(loop, sizes)

        assert turns_in(scene) == [f"{number:04}" for number in range(2, 8)]
        assert shown(scene.requests[-1])[1] == f"user: {prompt(2, 4_000)}"


def test_nothing_older_than_six_turns_is_left_alone(tmp_path: Path) -> None:
    """S4.5: with an empty old part nothing is compacted, however much there is."""
    with playing(tmp_path, Script(says(REPLY)), "turn-window", WINDOW) as (loop, scene):
        run(loop, [10_000] * 6)

        assert not any(asked(scene))
        assert turns_in(scene) == [f"{number:04}" for number in range(1, 7)]


def test_six_turns_beyond_the_models_window_are_a_safety_step(tmp_path: Path) -> None:
    """S1.0, B8, B9: turns that the document would keep and the model would refuse are summarised, with the reason `safety`."""
    with playing(tmp_path, Script(says(REPLY)), "turn-window", Window(20_000, output_tokens=4_000)) as (loop, scene):
        assert run(loop, [10_000] * 6).ending == "done"

        assert {event.reason for event in scene.heard(Compacted)} == {"safety"}
        assert turns_in(scene)[-1] == "0006"
        assert COMPACTED in shown(scene.requests[-1])[:2]


# Both fallbacks.


@pytest.mark.parametrize("fault", [Fail(400), Say(""), Say(NOTES, finish="length")], ids=["fails", "empty", "cut off"])
def test_a_summariser_that_fails_leaves_the_newest_turns(fault: ScriptedAnswer, tmp_path: Path) -> None:
    """S4.5, S3.9: no summary at all; the newest whole turns within 32,000 stay, and the loop goes on."""
    script = Script(says(REPLY))
    script.notes[0] = fault
    with playing(tmp_path, script, "turn-window", WINDOW) as (loop, scene):
        assert run(loop, [8_000] * 7).ending == "done"
        (checkpoint,), (event,) = scene.checkpoints(), scene.heard(Compacted)

        assert turns_in(scene) == ["0004", "0005", "0006", "0007"]
        assert "[COMPACTED_CONTEXT]" not in " ".join(shown(scene.requests[-1]))
        assert (checkpoint.text, checkpoint.cleaned, checkpoint.summary) == ("", True, None)
        assert event.outcome == "folded"
        assert len(scene.heard(SummaryRejected)) == 1


def test_the_newest_turn_stays_whatever_its_size(tmp_path: Path) -> None:
    """S4.5: where not even one turn is within the target, the one that is to be answered stays."""
    with playing(tmp_path, Script(says(REPLY)), "turn-window", WINDOW) as (loop, scene):
        run(loop, [*[1_000] * 6, 45_000])

        assert turns_in(scene) == ["0007"]
        assert shown(scene.requests[-1])[0] == COMPACTED


# A reply that is cut off.


def test_a_reply_cut_off_forces_a_compaction_within_the_attempts(tmp_path: Path) -> None:
    """S5.3, S1.7: two for one prompt, however small it all is; a third reply that is cut off ends the loop. The next prompt has
    attempts again, and begins with what was left undone.
    """
    cut = says("Cut", finish="length")
    with playing(tmp_path, Script(says(REPLY)), "turn-window", WINDOW) as (loop, scene):
        run(loop, [600] * 6)
        scene.script.then(cut)
        assert loop.run(prompt(7, 600)).ending == "length"

        assert asked(scene)[6:] == [False, True, False, True, False]
        assert [event.reason for event in scene.heard(Compacted)] == ["forced", "forced"]
        assert shown(scene.requests[8])[0] == COMPACTED
        assert shown(scene.requests[8])[-2:] == ["assistant: Cut", CONTINUE]
        assert turns_in(scene, 8) == [f"{number:04}" for number in range(2, 8)]
        scene.script.then(says("Whole."))
        assert loop.run(prompt(8, 600)).text == "Whole."
        assert [event.reason for event in scene.heard(Compacted)] == ["forced"] * 3


def test_a_reply_cut_off_with_nothing_old_ends_the_loop(tmp_path: Path) -> None:
    """S4.5, S5.3: forced or not, six turns are left as they are."""
    with playing(tmp_path, Script(says(REPLY)), "turn-window", WINDOW) as (loop, scene):
        run(loop, [600] * 5)
        scene.script.then(says("Cut", finish="length"))
        assert loop.run(prompt(6, 600)).ending == "length"

        assert scene.checkpoints() == []


def test_attempts_are_counted_for_one_prompt(tmp_path: Path) -> None:
    """S1.7, S5.1: tools that fill the window again and again lead to two compactions, not to one before every step."""
    with playing(tmp_path, Script(says(REPLY)), "turn-window", WINDOW) as (loop, scene):
        run(loop, [600] * 6)
        scene.script.then(*(fetches(20_000 + number) for number in range(5)), says("Whole."))
        assert loop.run(prompt(7, 600)).text == "Whole."

        assert [event.reason for event in scene.heard(Compacted)] == ["trigger", "trigger"]
