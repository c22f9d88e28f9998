"""What a session tells of itself, its forks and its children, and settings as keywords."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.policies import FOLDS

from infold import (
    AsyncSession,
    Session,
    SessionSettings,
    UnknownKeyword,
    UsageError,
    Window,
    fit,
    open_store,
    preset,
    share,
    wrap,
)
from infold.core.messages import text_of
from infold.session.settings import SessionKeywords

RULE = "Port the feed. Never touch vendor/."


def said(text: str) -> dict[str, Any]:
    """Return a user message."""
    return {"role": "user", "content": text}


def answered(text: str, tokens: int = 0) -> dict[str, Any]:
    """Return a reply, with usage if tokens are given."""
    usage = {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"choices": [choice], **({"usage": usage} if tokens else {})}


def working(session: Session, steps: int = 40) -> Session:
    """Let a session read a file step by step, until the first steps are folded, if it is one that only folds."""
    new = [said(RULE)]
    for n in range(steps):
        session.prepare_new(new)
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"path": "f{n}.py"}}'}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        session.record({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
        new = [{"role": "tool", "tool_call_id": f"c{n}", "content": f"NEEDLE-{n} " + "text of the file\n" * 150}]
    session.prepare_new(new)
    session.record(answered("All files are read."))
    return session


def test_a_session_tells_of_itself() -> None:
    """Its id, its view, all its messages, its tokens and its cost; the messages are those that were given, folded or not."""
    session = working(Session("memory", "ferry-42", window="8k", policy=FOLDS))

    assert (session.id, session.window_tokens) == ("ferry-42", 8_000)
    assert len(session.messages()) == 82
    assert session.messages()[0] == said(RULE)
    assert len(session.view()) < 50
    assert 0 < session.tokens <= session.limit_tokens
    assert session.cost() == 0.0
    lines = session.explain().splitlines()
    assert lines[0].startswith("ferry-42: 82 messages, ")
    assert " of them folded" in lines[0]
    assert lines[1].startswith(f"infold: {session.tokens:,} tokens")
    assert lines[-1].startswith("contents: ")


def test_the_view_is_what_prepare_sends() -> None:
    """`view` gives the messages of the next request, and changes nothing."""
    session = working(Session("memory", "s", window=8_192, policy=FOLDS))
    entries = session.log.next_sequence

    assert session.view() == session.view()
    assert session.log.next_sequence == entries
    assert session.prepare_new([]).messages == session.view()


def test_messages_that_were_taken_back_are_left_out() -> None:
    """A list that lost its end loses it in the session too."""
    session = Session("memory", "s", window=64_000)
    session.prepare([said("one"), said("two"), said("three")])
    session.prepare([said("one"), said("other")])

    assert session.messages() == [said("one"), said("other")]
    assert [text_of(message) for message in session.stored_messages()] == ["one", "other"]


def test_cost_counts_replies() -> None:
    """The cost is that of all replies so far at the model's prices."""
    session = Session("memory", "s", model="claude-sonnet-4-5")
    for text in ("one", "two"):
        session.prepare_new([said(text)])
        session.record(answered("fine", tokens=1_000))

    assert session.cost() == pytest.approx(2 * (1_000 * 3 + 10 * 15) / 1_000_000)
    assert "$0.0063 so far" in session.explain()


def test_a_request_explains_itself() -> None:
    """A prepared request has a report with what fills it, as `fit` has."""
    session = Session("memory", "s", window=8_192, policy=FOLDS)
    ready = session.prepare([said(RULE)], system="You port code.", tools=[{"name": "read"}])

    assert ready.report.changed is False
    assert set(ready.report.after) == {"system", "tools", "user"}
    assert "nothing was changed: it fits as it is" in ready.explain()
    assert fit([said(RULE)], window="8k").explain().startswith("infold: ")
    folded = next(one for one in [working(session).compact()])
    assert any(line.startswith("folded ") for line in folded.explain().splitlines())


def test_a_request_says_what_was_changed_earlier() -> None:
    """Where nothing was done for this request, what earlier ones folded is not called unchanged."""
    session = Session("memory", "s", window=8_192, policy=FOLDS)
    working(session).compact()
    later = session.prepare_new([said("And now?")])

    assert later.report.events == ()
    assert f"nothing more was changed; {session.log.folded} messages folded earlier" in later.explain()


def test_an_assumed_window_names_the_model_that_was_meant() -> None:
    """A slip in a model's name is answered with the nearest known ones."""
    session = Session("memory", "s", model="claude-sonet-4-5")

    assert "did you mean 'claude-sonnet-4-5'" in session.prepare([said("hi")]).explain()
    assert "did you mean 'claude-sonnet-4-5'" in fit([said("hi")], model="claude-sonet-4-5").explain()
    assert "did you mean" not in fit([said("hi")], model="house-model-of-ours").explain()


@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_fork_goes_its_own_way(place: str, tmp_path: Path) -> None:
    """A fork has what its source has, up to a message if one is named, and neither sees what the other adds."""
    at = "memory" if place == "memory" else str(tmp_path / "s.sqlite3")
    session = working(Session(at, "s", window=8_192, policy=FOLDS))
    view = session.view()
    fork, early = session.fork("t"), session.fork("u", before=1)
    fork.prepare_new([said("another way")])

    assert fork.id == "t"
    assert fork.view()[:-1] == view
    assert session.view() == view
    assert early.messages() == [said(RULE)]
    with pytest.raises(UsageError, match="already a session 't'"):
        session.fork("t")
    session.close()


def test_a_fork_takes_its_media_along() -> None:
    """Images of a session are in its fork."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    session = Session("memory", "s", window=64_000)
    session.prepare([{"role": "user", "content": [{"type": "text", "text": "look"}, image]}])

    assert session.fork("t").media("0.1") == session.media("0.1")


def test_a_child_works_for_its_parent() -> None:
    """A child is a session of its own in the same store; its last answer is what the parent is given."""
    parent = Session("memory", "s", window=8_192)
    parent.prepare([said(RULE)])
    child = parent.child("review", window="16k")

    assert child.result().startswith("The session has not answered yet.")
    child.prepare([said("Review the port.")])
    child.record(answered("The port drops empty items."))
    assert (child.id, child.window_tokens) == ("s:review", 16_000)
    assert child.result() == "The port drops empty items.\n[s:review: 2 messages, stored under this id]"
    assert parent.children() == ("s:review",)
    assert parent.messages() == [said(RULE)]
    assert parent.child("review").messages() == child.messages()


def test_wrong_names_and_numbers_are_refused() -> None:
    """A child needs a name, a result room, and a fork the number of a message."""
    session = Session("memory", "s", window=8_192)
    for wrong in (lambda: session.child(" "), lambda: session.result(budget_tokens=0)):
        with pytest.raises(UsageError, match="give"):
            wrong()
    with pytest.raises(UsageError, match="before is 'x'"):
        session.fork("t", before="x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="session id is empty"):
        session.fork("")


def test_a_long_result_is_shortened() -> None:
    """A long answer comes back in as many tokens as are allowed, and says how the rest is read."""
    child = Session("memory", "s", window=64_000).child("review")
    child.prepare([said("Review the port.")])
    child.record(answered("A finding about the port.\n" * 2_000))

    result = child.result(budget_tokens=300)
    assert len(result) < 2_500
    assert "read on with" in result


def test_the_same_for_async_callers() -> None:
    """An async session tells the same, forks and has children."""

    async def told() -> tuple[object, ...]:
        session = await AsyncSession.open("memory", "s", window="8k")
        await session.prepare([said(RULE)])
        await session.record(answered("Ported."))
        fork, child = await session.fork("t"), await session.child("review")
        await child.prepare([said("Review it.")])
        facts = (
            session.id,
            session.tokens > 0,
            len(await session.messages()),
            await session.view() == await fork.view(),
            await session.children(),
            (await session.explain()).splitlines()[0],
            await session.cost(),
            (await session.titles())[""],
            await session.diffs(),
            len(await fork.stored_messages()),
            (await child.result()).splitlines()[0],
        )
        await session.close()
        return facts

    first = "s: 2 messages"
    told_facts = asyncio.run(told())
    assert told_facts[:6] == ("s", True, 2, True, ("s:review",), first)
    assert told_facts[6:] == (0.0, RULE, (), 2, "The session has not answered yet.")


# Settings as keywords.


def test_keywords_are_the_settings() -> None:
    """Every setting of a session is a keyword of the same name."""
    assert set(SessionKeywords.__annotations__) == set(SessionSettings.__struct_fields__)


def test_keywords_win_over_settings(tmp_path: Path) -> None:
    """`Session` takes settings, keywords or both, and a store by its place, which it then closes."""
    settings = SessionSettings(window=8_192, recall=True)
    with Session(str(tmp_path / "a.sqlite3"), "s", settings, window=Window(32_000)) as session:
        session.prepare([said("hi")])
        assert session.window_tokens == 32_000
    with open_store(str(tmp_path / "a.sqlite3")) as store:
        assert Session(store, "s", settings).messages() == [said("hi")]
    with pytest.raises(UsageError, match="is closed"):
        session.messages()


@pytest.mark.parametrize("window", [64_000, "64k", "64_000", "0.064m", Window(64_000)])
def test_windows_are_written_alike(window: Any) -> None:
    """`fit`, `Session` and settings take a number, a text or a `Window`."""
    assert Session("memory", "s", window=window).window_tokens == 64_000
    assert SessionSettings(window=window).resolve().window.context_tokens == 64_000
    assert fit([said("hi")], window=window).report.budget.limit_tokens == 54_400
    assert SessionSettings(model="gpt-5", working_window="64k").resolve().policy.working_window_tokens == 64_000


@pytest.mark.parametrize("wrong", ["", "k", "64kb", "-5", "1.5", "1e9", "64 000"])
def test_a_window_that_is_no_number_is_refused(wrong: str) -> None:
    """A text that stands for no whole number of tokens gets an error with an example."""
    for call in (lambda: fit([said("hi")], window=wrong), lambda: SessionSettings(window=wrong)):
        with pytest.raises(UsageError, match="give a number of tokens such as"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: SessionSettings(window=8_000, summarizer=None),  # type: ignore[call-arg]
        lambda: Session("memory", "s", window=8_000, summarizer=None),  # type: ignore[call-arg]
        lambda: Session("memory", "s", window=8_000).child("x", summarizer=None),  # type: ignore[call-arg]
        lambda: SessionSettings(window=8_000).but(summarizer=None),
        lambda: wrap(OpenAI(), summarizer=None),  # type: ignore[call-arg]
        lambda: asyncio.run(AsyncSession.open("memory", "s", summarizer=None)),  # type: ignore[call-arg]
    ],
)
def test_a_misspelt_keyword_names_the_nearest(call: Any) -> None:
    """The American spelling of a keyword is answered with ours, wherever it is written."""
    with pytest.raises(UnknownKeyword, match="did you mean 'summariser'"):
        call()


class OpenAI:
    """Looks like a client of OpenAI's."""

    def with_options(self) -> None:
        """Do nothing."""


def test_fit_names_the_nearest_keyword() -> None:
    """`fit` does the same, and an unknown keyword that is like none lists those there are."""
    with pytest.raises(UnknownKeyword, match="did you mean 'window'"):
        fit([said("hi")], windw=8_000)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="choose one of bound_thinking, "):
        fit([said("hi")], qqq=8_000)  # type: ignore[call-arg]


def test_a_policy_of_ones_own_needs_no_other_package() -> None:
    """`but` changes a policy or a part of it, checks the values, and names the field that was meant."""
    infold = preset("infold")
    own = infold.but(trigger=share(0.7), tail=infold.tail.but(turns=3))

    assert (own.trigger, own.tail.turns, own.prune) == (share(0.7), 3, infold.prune)
    with pytest.raises(UsageError, match="did you mean 'trigger'"):
        infold.but(triger=share(0.7))
    with pytest.raises(UsageError, match=r"policy\.trigger"):
        infold.but(trigger=0.7)


# Pinning what was folded.


@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_folded_part_is_pinned(place: str, tmp_path: Path) -> None:
    """It comes back into the view, stays through the next folds, and a second pin adds nothing."""
    at = "memory" if place == "memory" else str(tmp_path / "s.sqlite3")
    session = working(Session(at, "s", window=32_000, policy=FOLDS), steps=60)
    assert "NEEDLE-0 " not in str(session.view())
    session.pin("2.0")
    entries = session.log.next_sequence
    session.pin("2.0")

    assert session.log.next_sequence == entries + 1
    assert str(session.view()).count("NEEDLE-0 ") == 1
    assert "Brought back from earlier in this session" in str(session.view())
    working(session, steps=60)
    session.compact()
    assert str(session.view()).count("NEEDLE-0 ") == 1
    session.pin("2.0")
    assert str(session.view()).count("NEEDLE-0 ") == 1
    assert len(session.messages()) == 244
    session.close()


def test_a_folded_pin_is_not_of_the_callers_list() -> None:
    """A caller who brings the whole list is followed as before, and the pinned part stays in the request."""
    session = Session("memory", "s", window=16_000)
    messages = [said(RULE)]
    for n in range(60):
        session.prepare(messages)
        session.record(answered(f"Step {n} is done. " + "It took a while to build. " * 40))
        messages += [{"role": "assistant", "content": f"Step {n} is done. " + "It took a while to build. " * 40}]
        messages += [said(f"Go on with {n + 1}.")]
    session.pin("1.0")

    sent = session.prepare([*messages, said("And now?")]).messages
    assert "Brought back from earlier" in str(sent)
    assert sent[-1] == said("And now?")


def test_an_unpinned_part_leaves_with_the_next_fold() -> None:
    """Releasing a part that was brought back is done by the handle it was pinned by."""
    session = working(Session("memory", "s", window=32_000, policy=FOLDS), steps=60)
    session.pin("2.0")
    session.unpin("2.0")
    working(session, steps=60)
    session.compact()

    assert "NEEDLE-0 " not in str(session.view())


def test_a_part_too_large_for_the_window_is_not_pinned() -> None:
    """The error says how large it is, and what to do instead."""
    session = Session("memory", "s", window=8_192)
    session.prepare_new([said(RULE)])
    session.record(answered("word " * 3_000))
    for n in range(12):
        session.prepare_new([said(f"Go on with {n}. " + "It matters. " * 100)])
        session.record(answered("Done. " * 200))
    session.compact()

    with pytest.raises(UsageError, match=r"more than the 1,7\d\d that a pinned part may take .* recall"):
        session.pin("1.0")
