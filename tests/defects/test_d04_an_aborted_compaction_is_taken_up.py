"""D4: a compaction that was aborted is carried out by the next prompt, as its own boundary, and the prompt is answered."""

from asyncio import CancelledError

import pytest

from infold.formats.registry import OPENAI_CHAT
from infold.stores.memory import MemoryStore
from infold.testing.builders import numbered, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    GOOD_NOTES,
    Notetaker,
    compactions,
    conversation,
    each_preset,
    opened,
    requests_of,
    story,
    told_of,
    written,
)

ENDS = (KeyboardInterrupt(), SystemExit(1), CancelledError())
FAILURES = (ConnectionResetError("gone"), TimeoutError(), ValueError("no JSON"), MemoryError(), RecursionError())
LONG = conversation(40, tokens=12, reply_tokens=900)
PROMPT = numbered([user("Are you there?")], prefix="n")

each_end = pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)


@each_preset
@each_end
@pytest.mark.parametrize("is_reopened", [False, True], ids=["same", "reopened"])
def test_d04_the_next_prompt_carries_it_out(name: str, end: BaseException, is_reopened: bool) -> None:
    """S3.1, S5.1, B13: the request left behind becomes a checkpoint, the view shrinks, and the prompt stands last."""
    store, notes = MemoryStore(), Notetaker(end, GOOD_NOTES)
    session = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=notes)
    before = session.prepare_new(written(OPENAI_CHAT, LONG))
    with pytest.raises(type(end)):
        session.compact()
    if is_reopened:
        session = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=notes)
    ready = session.prepare_new(written(OPENAI_CHAT, PROMPT))

    assert len(compactions(ready.events)) == 1
    assert session.log.pending is None
    assert session.log.checkpoint is not None
    assert len(told_of(ready)) < 0.8 * len(told_of(before))
    assert GOOD_NOTES in told_of(ready)
    assert [item for item in ready.messages if "Are you there?" in str(item)] == written(OPENAI_CHAT, PROMPT)


@each_preset
@each_end
def test_d04_it_is_carried_out_once(name: str, end: BaseException) -> None:
    """B9: the prompt after that finds nothing left to do, and no summary is anybody's answer."""
    session = opened(name, OPENAI_CHAT, window=64_000, notes=Notetaker(end, GOOD_NOTES))
    session.prepare_new(written(OPENAI_CHAT, LONG))
    with pytest.raises(type(end)):
        session.compact()
    session.prepare_new(written(OPENAI_CHAT, PROMPT))
    ready = session.prepare_new(written(OPENAI_CHAT, numbered([user("And now?")], prefix="o")))

    assert ready.events == ()
    assert ready.messages[-1] == {"role": "user", "content": "And now?"}


@each_end
@pytest.mark.parametrize("is_reopened", [False, True], ids=["same", "reopened"])
def test_d04_an_automatic_one_is_taken_up_too(end: BaseException, is_reopened: bool) -> None:
    """S3.1, B13: aborted in the midst of a tool loop, it is carried out when the loop goes on, and the loop goes on."""
    store, notes = MemoryStore(), Notetaker(end, GOOD_NOTES)
    session = opened("infold", OPENAI_CHAT, store=store, notes=notes)
    aborted = 0
    for new in requests_of(story(60)):
        items = written(OPENAI_CHAT, new)
        try:
            ready = session.prepare_new(items)
        except type(end):
            aborted += 1
            if is_reopened:
                session = opened("infold", OPENAI_CHAT, store=store, notes=notes)
            ready = session.prepare_new([] if is_reopened else items)
            assert [event.outcome for event in compactions(ready.events)] == ["summarised"]
        assert ready.messages[-1] == items[-1]

    assert aborted == 1
    assert session.log.pending is None


@each_preset
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_d04_a_failure_is_no_abort(name: str, failure: Exception) -> None:
    """B10: whatever error a summariser raises, the compaction is done without it, at once, and nothing stays pending."""
    session = opened(name, OPENAI_CHAT, window=64_000, notes=Notetaker(failure))
    session.prepare_new(written(OPENAI_CHAT, LONG))
    ready = session.compact()

    assert len(compactions(ready.events)) == 1
    assert session.log.pending is None
    assert session.log.checkpoint is not None
    assert session.log.checkpoint.narrative == ""
