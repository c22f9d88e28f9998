"""A session whose provider compacts: what its summariser is asked, and what is made of the answer."""

from typing import Any

import pytest

from infold import Session, SessionSettings, open_store
from infold.core.events import Compacted, Event, SummaryRejected
from infold.core.summary_request import SummaryRequest
from infold.errors import UsageError

MODEL = "claude-opus-5-5"
BLOCK = {"type": "compaction", "content": "The ferry feed was ported to src/feed.py step by step.", "signature": "s"}
REPLY = {"content": [BLOCK], "stop_reason": "compaction", "usage": {"input_tokens": 900, "output_tokens": 20}}


class Provider:
    """A summariser that gives these answers in turn, the last one for ever, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = [*answers]
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> Any:
        """Answer a request."""
        self.asked.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def session_with(provider: Provider, events: list[Event], **given: Any) -> Session:
    """A session that was asked to compact some turns."""
    stated = {"native": "always", "offers_native": True, "format": "anthropic-messages", **given}
    settings = SessionSettings(model=MODEL, window=20_000, summariser=provider, on_event=events.append, **stated)
    session = Session(open_store("memory"), "s", settings)
    items: list[Any] = []
    for turn in range(6):
        items.append({"role": "user", "content": f"Port part {turn} of src/feed.py. " + "Mind the ferry times. " * 60})
        session.prepare(items, system="Be careful.", tools=[{"name": "shell"}])
        reply = {"role": "assistant", "content": [{"type": "text", "text": f"Part {turn} of src/feed.py is ported."}]}
        session.record({**reply, "stop_reason": "end_turn"})
        items.append(reply)
    session.compact()
    return session


def test_the_provider_is_asked_with_the_first_messages() -> None:
    """B42: system, tools and messages as they were sent; its reply is the summary, with its cost."""
    provider, events = Provider(REPLY), list[Event]()
    session = session_with(provider, events)

    asked = provider.asked[0]
    assert asked.is_native
    assert (asked.system, asked.tools) == ("Be careful.", [{"name": "shell"}])
    assert asked.items[0]["content"].startswith("Port part 0")
    assert "Write notes on the conversation" in asked.instructions
    assert session.log.native
    fold = next(event for event in events if isinstance(event, Compacted))
    assert fold.native
    assert fold.cost > 0
    assert fold.summariser == MODEL


@pytest.mark.parametrize("answer", [{"content": []}, "text where a reply is wanted", {"content": 7}])
def test_an_answer_without_a_compaction_is_followed_by_an_ordinary_request(answer: object) -> None:
    """B42: the second try is not native, and its text is used."""
    provider, events = Provider(answer, "The ferry feed was ported to src/feed.py."), list[Event]()
    session = session_with(provider, events)

    assert [asked.is_native for asked in provider.asked] == [True, False]
    assert not session.log.native
    fold = next(event for event in events if isinstance(event, Compacted))
    assert (fold.native, fold.faults) == (False, ("failed",))


def test_a_reply_is_no_answer_to_an_ordinary_request() -> None:
    """A summariser that returns a provider's reply where text is wanted has failed, and is not asked again."""
    provider, events = Provider(REPLY), list[Event]()
    session_with(provider, events, native="never")

    assert [asked.is_native for asked in provider.asked] == [False]
    assert any(isinstance(event, SummaryRejected) for event in events)


@pytest.mark.parametrize(
    "given",
    [{"native": "never"}, {"offers_native": False}, {"format": "openai-chat"}, {"policy": "opencode-1.18"}],
)
def test_where_it_is_not_offered_the_summariser_is_asked(given: dict[str, Any]) -> None:
    """B42: nor in a document's preset, nor in a format without it."""
    stated = {"native": "always", "offers_native": True, "format": "anthropic-messages", **given}
    settings = SessionSettings(model=MODEL, summariser=lambda _: "", **stated)
    assert settings.resolve().native == "never"
    assert not settings.resolve().rendering.shows_native


def test_auto_needs_a_model_that_is_documented() -> None:
    """B42: of Anthropic's models, those in its list; `always` asks any."""

    def native_of(model: str, use: Any) -> str:
        settings = SessionSettings(
            model=model, summariser=lambda _: "", native=use, offers_native=True, format="anthropic-messages"
        )
        return settings.resolve().native

    assert native_of(MODEL, "auto") == "auto"
    assert native_of("claude-haiku-4-5", "auto") == "never"
    assert native_of("claude-haiku-4-5", "always") == "always"


def test_a_wrong_value_is_refused() -> None:
    """B16: with the values that may be given."""
    with pytest.raises(UsageError, match="give 'auto', 'always' or 'never'"):
        SessionSettings(model=MODEL, native="sometimes")  # type: ignore[arg-type]


def test_openais_compaction_is_counted_and_undone() -> None:
    """B42: a sealed item needs no text; it is in the cost, and undo removes it and brings back the whole list."""
    sealed = {"type": "compaction", "id": "c", "encrypted_content": "x" * 200}
    reply = {"output": [sealed], "usage": {"input_tokens": 900, "output_tokens": 70}}
    provider, events = Provider(reply), list[Event]()
    settings = SessionSettings(
        model="gpt-5.4",
        window=20_000,
        format="openai-responses",
        summariser=provider,
        native="always",
        offers_native=True,
        on_event=events.append,
    )
    session = Session(open_store("memory"), "s", settings)
    items: list[Any] = []
    for turn in range(6):
        items.append({"role": "user", "content": f"Port part {turn} of src/feed.py. " + "Mind the ferry times. " * 60})
        session.prepare(items)
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"Part {turn}."}]}
        session.record({"output": [said], "status": "completed"})
        items.append(said)
    ready = session.compact()

    assert sealed in ready.messages
    assert "Port part 0" in str(ready.messages[1:])
    fold = next(event for event in events if isinstance(event, Compacted))
    assert (fold.native, fold.summariser, fold.faults) == (True, "gpt-5.4", ())
    assert fold.cost > 0
    assert session.log.checkpoint_size.measure >= 70
    session.undo()
    items.append({"role": "user", "content": "And now?"})
    assert session.prepare(items).messages == items
