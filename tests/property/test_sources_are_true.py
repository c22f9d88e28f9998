"""Law: `sources` says of each message sent which of the given ones it is, and `edited` where its content differs."""

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_fit_is_stable import WINDOWS, large_histories, request_points
from tests.support.wire import WireHistory, guises

from infold import Session, SessionSettings, UsageError, WindowExceeded, fit
from infold.formats.codec import as_dict
from infold.stores.memory import MemoryStore


def check(
    given_items: Sequence[Any], sent: Sequence[Any], sources: Sequence[int | None], edited: frozenset[int]
) -> None:
    """Assert the law for one request."""
    assert len(sources) == len(sent)
    known = [number for number in sources if number is not None]
    assert len(set(known)) == len(known)
    for place, (item, number) in enumerate(zip(sent, sources, strict=True)):
        if number is None:
            assert place not in edited
            assert not any(item is one for one in given_items)
        elif place in edited:
            assert item is not given_items[number]
            assert as_dict(item).get("role") == as_dict(given_items[number]).get("role")
        else:
            assert item is given_items[number]
    assert known == sorted(known)


@given(large_histories(), WINDOWS, st.data())
def test_fit_names_the_sources(history: WireHistory, window: int, data: st.DataObject) -> None:
    """B43: each message of `fit` is the given one at its source, or its position is in `edited`."""
    items = data.draw(guises(history.items))
    try:
        fitted = fit(items, window=window, format=history.format.name)
    except WindowExceeded:
        return

    check(items, fitted.messages, fitted.sources, fitted.edited)


@given(large_histories(), WINDOWS, st.booleans())
def test_a_session_names_the_sources(history: WireHistory, window: int, undoes: bool) -> None:
    """B43: a session that is given the whole list says the same of this call's list, after undo too."""
    session = Session(MemoryStore(), "s", SessionSettings(window=window, format=history.format.name))
    for end in request_points(history.items):
        items = copy.deepcopy(history.items[:end])
        try:
            ready = session.prepare(items)
        except WindowExceeded:
            return
        check(items, ready.messages, ready.sources, ready.edited)
        if undoes and session.log.checkpoint is not None:
            session.undo()


@given(large_histories(), WINDOWS)
def test_new_messages_are_sources_of_their_call(history: WireHistory, window: int) -> None:
    """B43: a session that is given only what is new names the messages of that call, and nothing else."""
    session = Session(MemoryStore(), "s", SessionSettings(window=window, format=history.format.name))
    done = 0
    for end in request_points(history.items):
        items = copy.deepcopy(history.items[done:end])
        try:
            ready = session.prepare_new(items)
        except (WindowExceeded, UsageError):  # a system message does not open what is new
            return
        check(items, ready.messages, ready.sources, ready.edited)
        done = end
