"""Law: kept steps are part of their fold: whatever is done with a session, they come and go with it, and stay what they are."""

import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.working_agent import FORMATS, PLANS, Agent, Plan, handles_in

from infold import Session, UsageError, open_store
from infold.core.entries import Checkpoint, KeptStep, decode_entry, encode_entry
from infold.core.messages import text_of
from infold.ports import FullStore, SessionKey

pytestmark = pytest.mark.slow

EXAMPLES = settings(max_examples=int(os.environ.get("INFOLD_EXAMPLES", "4")), deadline=None)
FOLDS = 4
EACH_FORMAT = pytest.mark.parametrize("name", FORMATS)


def folds(agent: Agent) -> Iterator[list[Any]]:
    """Work on; yield each request that was folded for."""
    done = 0
    for sent in agent.steps(folds=FOLDS, most=50):
        if agent.folds > done:
            done = agent.folds
            yield sent


def steps_of(session: Session) -> tuple[KeptStep, ...]:
    return session.log.steps


def key_of(agent: Agent) -> SessionKey:
    return SessionKey("", agent.session.log.session_id)


@EACH_FORMAT
@EXAMPLES
@given(plan=PLANS)
def test_undoing_a_fold_brings_back_the_steps_of_the_one_before(name: str, plan: Plan) -> None:
    """B20, B52: after each fold its undoing shows the view as it was, with the kept steps of the last fold."""
    agent = Agent(name, replace(plan, binds=False))
    for number, _ in enumerate(folds(agent)):
        at = agent.session.log.checkpoint_sequence
        before = agent.session.fork(f"before-{number}", before=at)
        undone = agent.session.fork(f"undone-{number}")
        undone.undo()

        assert steps_of(undone) == steps_of(before)
        assert undone.view() == before.view()
        assert undone.tokens == before.tokens


@EACH_FORMAT
@EXAMPLES
@given(plan=PLANS)
def test_a_preview_is_what_a_compaction_does(name: str, plan: Plan) -> None:
    """B26, B52: a preview names as many kept steps, and the same text and tokens, as a compaction then has."""
    agent = Agent(name, plan)
    for sent in folds(agent):
        copy = agent.session.fork(f"copy-{len(sent)}-{agent.number}")
        try:
            shown = copy.preview()
        except UsageError:  # there is nothing to fold
            continue
        before = copy.log.checkpoint_sequence
        copy.compact()
        checkpoint = copy.log.checkpoint
        if copy.log.checkpoint_sequence == before:
            assert shown.kept_steps == 0
            continue
        assert checkpoint is not None
        assert (shown.text, shown.kept_steps) == (checkpoint.text, len(checkpoint.steps))
        assert shown.tokens_before == checkpoint.tokens_before
        assert agent.provider.refusal(copy.view()) == ""


@EACH_FORMAT
@EXAMPLES
@given(plan=PLANS, data=st.data())
def test_a_part_of_a_kept_step_may_be_pinned(name: str, plan: Plan, data: st.DataObject) -> None:
    """B21, B52: a result whose stub is kept comes back when it is pinned, and stays over later folds; steps stay as they are."""
    agent = Agent(name, replace(plan, recall=True, binds=False))
    pinned: list[str] = []
    for _ in agent.steps(folds=FOLDS, most=40):
        log = agent.session.log
        handles = [handle for step in log.steps for _, handle in handles_in(step)]
        if handles and len(pinned) < 2 and agent.plan.brings != "shown":
            handle = data.draw(st.sampled_from(handles))
            try:
                agent.session.pin(handle)
            except UsageError:  # it is too large for the window
                continue
            assert agent.session.log.steps == log.steps
            pinned.append(handle)
        text = str([text_of(logged.message) for logged in agent.session.log.live]) + agent.session.log.checkpoint_text
        assert all(f"[{handle}" in text or handle in text for handle in pinned)


@EACH_FORMAT
@pytest.mark.parametrize("place", ["memory", "sqlite"])
@EXAMPLES
@given(plan=PLANS)
def test_another_process_goes_on_with_the_same_view(name: str, place: str, plan: Plan) -> None:
    """B13, B52: from the store, the next request and that of a fork are those of the process that made the fold."""
    with TemporaryDirectory() as folder, opened(place, Path(folder)) as store:
        agent = Agent(name, plan, store)
        for number, sent in enumerate(folds(agent)):
            later, copy = agent.open(), agent.session.fork(f"fork-{number}")

            assert later.log.steps == copy.log.steps == agent.session.log.steps
            assert later.view() == copy.view()
            assert agent.provider.refusal(later.view()) == ""
            if plan.brings != "new":
                assert later.view(agent.items) == sent
            assert later.tokens == agent.open().tokens
            later.close()
            agent.session = agent.open()


def opened(place: str, folder: Path) -> Any:
    return open_store(str(folder / "sessions.sqlite3") if place == "sqlite" else place)


@EXAMPLES
@given(plan=PLANS)
def test_a_stored_checkpoint_has_its_steps(plan: Plan) -> None:
    """B13, B52: an entry written and read again is the same, and an entry of a version without kept steps is read as one
    that has none."""
    agent = Agent("anthropic-messages", plan)
    for _ in folds(agent):
        entries = [entry for _, entry in agent.store.newest_first(key_of(agent)) if isinstance(entry, Checkpoint)]
        for entry in entries:
            assert decode_entry(encode_entry(entry)) == entry
            bare = replace(entry, steps=())
            assert b'"steps":' not in encode_entry(bare)
            assert decode_entry(encode_entry(bare)) == bare


@EACH_FORMAT
@EXAMPLES
@given(plans=st.tuples(PLANS, PLANS))
def test_two_conversations_keep_their_own_steps(name: str, plans: tuple[Plan, Plan]) -> None:
    """B52, B57: two sessions of one store that take turns have the requests that they have alone."""
    store: FullStore = open_store("memory")
    working = [Agent(name, plan, store, f"s{number}").steps(folds=FOLDS, most=25) for number, plan in enumerate(plans)]
    together: list[list[list[Any]]] = [[], []]
    for one, other in zip_longest(*working):
        together[0] += [one] if one else []
        together[1] += [other] if other else []

    assert together == [[*Agent(name, plan).steps(folds=FOLDS, most=25)] for plan in plans]
