"""What is of a wrong kind is told where it was given, with what to pass."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from infold import AsyncSession, Session, SessionSettings, Window, fit, installed_plugins, open_store, share
from infold.errors import InfoldError, UsageError
from infold.ports import FullStore

HI = [{"role": "user", "content": "hi"}]
SETTINGS = SessionSettings(window=8_000)


@pytest.fixture
def store() -> FullStore:
    """A store in memory."""
    return open_store("memory")


@pytest.fixture
def session(store: FullStore) -> Session:
    """A session with one message."""
    session = Session(store, "s", SETTINGS)
    session.prepare(HI)
    return session


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"window": "much"}, "the window is 'much'; give a number of tokens"),
        ({"window": 8000.5}, "the window is 8000.5"),
        ({"window": True}, "the window is True"),
        ({"window": [8_000]}, "or a Window"),
        ({"model": 5}, "the model is an int; give its name"),
        ({"model": b"gpt-5"}, "the model is a bytes"),
        ({"policy": None}, "the policy is None; give a preset's name"),
        ({"policy": 5}, "the policy is an int"),
    ],
)
def test_terms_of_a_wrong_kind_are_told(wrong: dict[str, Any], told: str) -> None:
    """The same for `fit` and for settings, which do not wait until a session is opened."""
    with pytest.raises(UsageError, match=told):
        fit(HI, **({"window": 8_000} | wrong))
    with pytest.raises(UsageError, match=told):
        SessionSettings(**({"window": 8_000} | wrong))


@pytest.mark.parametrize("tokens", ["8000", 8000.5, True])
def test_a_window_is_whole_tokens(tokens: Any) -> None:
    """A window of another kind is refused by itself."""
    with pytest.raises(UsageError, match="not a number of tokens"):
        Window(tokens)


@pytest.mark.parametrize("value", ["x", None, True])
def test_a_share_is_a_number(value: Any) -> None:
    """A text is no share."""
    with pytest.raises(UsageError, match="is not an amount"):
        share(value)


@pytest.mark.parametrize("place", [None, 5, ["memory"]])
def test_a_store_is_a_store_or_its_place(place: Any) -> None:
    """Any other value is refused with what may be given."""
    with pytest.raises(UsageError, match="give 'memory', a path, an address"):
        Session(place, "s", SETTINGS)


@pytest.mark.parametrize(("settings", "told"), [(None, "neither a model nor a window"), ({"window": 8}, "a dict")])
def test_settings_are_settings(store: FullStore, settings: Any, told: str) -> None:
    """A dict is no settings, and settings name a model or a window."""
    with pytest.raises(UsageError, match=told):
        Session(store, "s", settings)


def test_keys_are_text(store: FullStore) -> None:
    """A number names no session, and nothing is no tenant."""
    with pytest.raises(UsageError, match="the session id is an int, not text"):
        Session(store, 5, SETTINGS)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the tenant is None, not text"):
        Session(store, "s", SETTINGS, tenant=None)  # type: ignore[arg-type]


def test_an_async_session_is_opened(store: FullStore) -> None:
    """Whoever makes one as a `Session` is made is told how."""
    with pytest.raises(UsageError, match=r"await AsyncSession\.open\(store, session_id, settings\)"):
        AsyncSession(store, "s", SETTINGS)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"await AsyncSession\.open"):
        AsyncSession("memory", "s", window=8_000)  # type: ignore[arg-type]


def test_a_missing_argument_is_named_with_an_example() -> None:
    """The error is an InfoldError that shows the call, for both kinds of sessions, whatever else is given."""
    unfinished: dict[str, Callable[[], object]] = {
        r"^session_id must be given; write Session\(": partial(Session, "memory", window="8k"),
        r"^store and session_id must be given; write Session\(": Session,  # type: ignore[dict-item]
        r"^session_id must be given; write await AsyncSession\.open\(": partial(AsyncSession.open, "memory"),
        r": await AsyncSession\.open\(store, ": partial(AsyncSession, "memory", "s", window=8_000),  # type: ignore[arg-type]
        r"is opened: await AsyncSession\.open\(": AsyncSession,
    }
    for words, call in unfinished.items():
        with pytest.raises(UsageError, match=words):
            call()
    assert Session(store="memory", session_id="s", window="8k").id == "s"


def test_plugins_are_no_text() -> None:
    """A name is not taken letter by letter."""
    with pytest.raises(UsageError, match="give a list"):
        SessionSettings(window=8_000, plugins="seven-sections")
    assert SessionSettings(window=8_000, plugins=installed_plugins(["seven-sections"])).plugins


@pytest.mark.parametrize("callback", ["on_event", "on_compacted"])
def test_callbacks_can_be_called(store: FullStore, callback: str) -> None:
    """What cannot be called is told before the first event."""
    wrong: dict[str, Any] = {callback: 5}
    with pytest.raises(UsageError, match="a int cannot be called"):
        Session(store, "s", SessionSettings(window=8_000, **wrong))


def test_a_summariser_can_be_called(store: FullStore) -> None:
    """What is neither a function nor a name is told before the first compaction."""
    with pytest.raises(UsageError, match="the summariser is an int; give a function"):
        Session(store, "s", SessionSettings(window=8_000, summariser=5))  # type: ignore[arg-type]


@pytest.mark.parametrize("messages", [None, "hi", 5, (one for one in HI)])
@pytest.mark.parametrize("way", ["prepare", "prepare_new"])
@pytest.mark.parametrize("format_name", [None, "anthropic-messages"])
def test_messages_are_a_list(store: FullStore, messages: Any, way: str, format_name: str | None) -> None:
    """Sessions say of wrong messages what `fit` says."""
    session = Session(store, "s", SessionSettings(window=8_000, format=format_name))
    with pytest.raises(UsageError, match="give a list of messages"):
        getattr(session, way)(messages)


@pytest.mark.parametrize(
    ("way", "arguments", "told"),
    [
        ("pin", {"handle": None}, "the handle is None; give text, such as '12.0'"),
        ("unpin", {"handle": 0.0}, "the handle is a float"),
        ("recall", {"query": None}, "the query is None"),
        ("recall", {"query": "x", "budget_tokens": "y"}, "budget_tokens is 'y'; give a whole number"),
        ("compact", {"focus": 5}, "the focus is an int"),
        ("prepare", {"messages": HI, "output_tokens": "5"}, "output_tokens is '5'"),
        ("prepare", {"messages": HI, "edited_from_tokens": "5"}, "edited_from_tokens is '5'"),
    ],
)
def test_arguments_of_a_wrong_kind_are_told(
    store: FullStore, session: Session, way: str, arguments: dict[str, Any], told: str
) -> None:
    """Sync and async say the same."""

    async def asked() -> None:
        await getattr(await AsyncSession.open(store, "s", SETTINGS), way)(**arguments)

    with pytest.raises(UsageError, match=told):
        getattr(session, way)(**arguments)
    with pytest.raises(InfoldError, match=told):
        asyncio.run(asked())


def test_a_title_is_text(session: Session) -> None:
    """The one act that only a `Session` has."""
    with pytest.raises(UsageError, match="the title is an int"):
        session.title(5)  # type: ignore[arg-type]
