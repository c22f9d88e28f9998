"""D14: the same calls over and over, with the same answers, are noticed across steps, compactions and processes."""

from pathlib import Path

import pytest

from infold.agent.events import Answered, Ended, Happening
from infold.agent.loop import CIRCLING, Bounds
from infold.core.entries import Checkpoint
from infold.core.messages import UserMessage, text_of
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, ScriptedRequest
from infold.testing.scripted_model import ScriptedModel

from ..unit.agent.workshop import (  # noqa: TID252 - `tests` is no package to name
    KEY,
    call,
    loop_in,
    messages_in,
    model_saying,
)

WINDOW = 8_192
NOTES = "The same files were read again and again, and nothing was changed in them."


def circling(period: int, lines: int = 1) -> ScriptedModel:
    """A model that goes round in a circle of so many calls, each answered with so many lines, and notices nothing."""
    asked = iter(range(10_000))

    def script(request: ScriptedRequest) -> Say:
        if "You write the notes" in text_of(request.messages[0]):
            return Say(NOTES)
        at = next(asked)
        return Say(f"Look {at}.", (call("shell", command=f"seq {at % period} {lines}"),))

    return ScriptedModel(script)


def warnings_in(store: MemoryStore) -> int:
    """How often the model was told that it goes round in a circle."""
    return sum(isinstance(one, UserMessage) and text_of(one) == CIRCLING for one in messages_in(store))


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_d14_a_circle_ends(tmp_path: Path, period: int) -> None:
    """S5.5: a circle of up to four steps is warned of when it went round three times, and ended when it goes on."""
    store = MemoryStore()
    ended = loop_in(tmp_path, circling(period), store=store).run("What is in the files?")

    assert (ended.ending, ended.steps) == ("circling", 3 * period + 1)
    assert warnings_in(store) == 1


def test_d14_compactions_hide_no_circle(tmp_path: Path) -> None:
    """S5.5, B9: what a compaction folded counts: a circle longer than the window holds is noticed as soon as any other."""
    store = MemoryStore()
    ended = loop_in(tmp_path, circling(4, lines=900), store=store, window=WINDOW).run("What is in the files?")
    folds = [entry for _, entry in store.newest_first(KEY) if isinstance(entry, Checkpoint)]

    assert folds
    assert (ended.ending, ended.steps) == ("circling", 13)
    assert warnings_in(store) == 1


def test_d14_a_restart_hides_no_circle(tmp_path: Path) -> None:
    """B13: each process sees what those before it did, and the circle is noticed though none of them made it alone."""
    store, model = MemoryStore(), circling(1)
    loop_in(tmp_path, model, store=store, bounds=Bounds(steps=2)).run("What is in the files?")
    assert warnings_in(store) == 0
    loop_in(tmp_path, model, store=store, bounds=Bounds(steps=1)).go_on()

    assert warnings_in(store) == 1


def test_d14_the_session_goes_on_afterwards(tmp_path: Path) -> None:
    """B13: whoever says what to do differently is answered, and the count begins anew."""
    same = Say("", (call("list"),))
    loop = loop_in(tmp_path, model_saying(*[same] * 4, *[same] * 2, "Here is what I found."))

    assert loop.run("What is here?").ending == "circling"
    assert loop.run("Look twice more, then tell me.").text == "Here is what I found."


def test_d14_waiting_is_no_circle(tmp_path: Path) -> None:
    """Asking for the state of something until it changes gets somewhere."""
    poll = Say("", (call("shell", command="echo >> ticks; wc -l < ticks"),))
    told: list[Happening] = []
    ended = loop_in(tmp_path, model_saying(*[poll] * 12, "Twelve."), told.append).run("Wait for twelve.")

    assert ended == Ended("done", "s", 13, "Twelve.")
    assert [one.output.strip() for one in told if isinstance(one, Answered)] == [str(n) for n in range(1, 13)]
