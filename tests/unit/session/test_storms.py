"""Seeded lives of a session among failures, refusals and other processes; what must hold holds after every call."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from infold.core.entries import Entry
from infold.core.judge import Answer
from infold.core.messages import text_of
from infold.core.view import view
from infold.errors import ModelError, ModelOverflow, StoreBroken, StoreError, UsageError, WindowExceeded
from infold.formats.overflow import Overflow

from .session_fixture import GOOD, DrivenSession, ScriptedSummariser, said

ANSWERS = (Answer(GOOD), Answer(""), ModelError("m", "is down"), ModelOverflow("m"), ModelOverflow("m", 3_000))
REFUSALS = (Overflow("o"), Overflow("o", None, 6_000), Overflow("o", bytes_limit=True))
MOST_FAILURES = 6


class Ended(BaseException):
    """Ctrl-C, or the end of a task."""


class Storm:
    """One session, the processes that keep it, and what a caller has said in it."""

    def __init__(self, seed: int, *, whole: bool) -> None:
        self.chance = Random(seed)
        self.whole = whole
        scripted = ScriptedSummariser(*(self.chance.choice(ANSWERS) for _ in range(30)))
        summarises = self.chance.random() < 0.7
        first = DrivenSession(
            scripted, window=self.chance.choice((8_192, 16_000)), summarises=summarises, patience_seconds=0.2
        )
        self.processes = [first] if whole or self.chance.random() < 0.5 else [first, first.again()]
        self.messages: list[dict[str, Any]] = []
        self.spoken = 0

    def live(self, calls: int) -> None:
        """So many calls, each checked; the life ends where a request can no longer fit."""
        for _ in range(calls):
            session = self.chance.choice(self.processes)
            self.disturb(session)
            try:
                self.act(session)
            except WindowExceeded:
                return
            session.store.before = session.store.after = lambda _: None
            self.check(session)

    def disturb(self, session: DrivenSession) -> None:
        """Sometimes, let one of the next appends break off, before or after it is stored."""
        if self.chance.random() > 0.12:
            return
        error = self.chance.choice((StoreBroken("disk", "is full", remedy="make room"), Ended()))
        left = self.chance.randrange(1, 4)

        def failing(_: Sequence[Entry]) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise error

        if self.chance.random() < 0.5:
            session.store.before = failing
        else:
            session.store.after = failing

    def act(self, session: DrivenSession) -> None:
        """One of the things that happen to a session."""
        if not self.messages:
            return self.speak(session)
        act = self.chance.choices(
            (self.speak, self.compact, self.undo, self.refuse, self.pin, self.restart), (12, 2, 1, 1, 1, 1)
        )[0]
        return act(session)

    def speak(self, session: DrivenSession) -> None:
        """A request and its reply; a caller of whole lists sometimes goes back on the newest."""
        said_now = said(f"user {self.spoken}: " + "please look at it " * self.chance.choice((2, 40, 200)))
        if self.whole and self.chance.random() < 0.08:
            folded = 0 if session.log.checkpoint is None else session.log.checkpoint.folded
            self.messages = self.messages[: max(1, folded, len(self.messages) - 2)]
        self.messages = [*self.messages, said_now]
        ready = insisting(lambda: session.prepare(self.messages) if self.whole else session.prepare_new([said_now]))
        assert ready.gauge.upper_tokens <= session.settings.window
        answer = {"role": "assistant", "content": f"answer {self.spoken}: " + "it was looked at " * 20}
        self.spoken += 1
        sent = session.log.size.measure + session.log.checkpoint_size.measure
        usage = {"usage": {"prompt_tokens": int(1.3 * sent) + 50, "completion_tokens": 9}}
        body = {"choices": [{"message": answer, "finish_reason": "stop"}], **(usage if self.spoken % 2 else {})}
        insisting(lambda: session.record(body))
        self.messages = [*self.messages, answer]

    def compact(self, session: DrivenSession) -> None:
        """A person compacts."""
        tried(lambda: session.compact())

    def undo(self, session: DrivenSession) -> None:
        """A person takes that back."""
        tried(lambda: session.undo())

    def refuse(self, session: DrivenSession) -> None:
        """A provider refuses."""
        tried(lambda: session.recover(self.chance.choice(REFUSALS)))

    def pin(self, session: DrivenSession) -> None:
        """A person pins something short."""
        short = [placed.sequence for placed in session.log.live if placed.size.measure < 100]
        if short:
            tried(lambda: session.pin(f"{self.chance.choice(short)}.0"))

    def restart(self, session: DrivenSession) -> None:
        """A process ends, and another takes its place."""
        self.processes[self.processes.index(session)] = session.again()

    def check(self, session: DrivenSession) -> None:
        """Nothing is lost or doubled, and what a new process would read is what this one has."""
        read, shape = session.reread(), session.policy.summary
        live = [text_of(placed.message).split(":")[0] for placed in read.live if not placed.is_own]
        said_so_far = [str(message["content"]).split(":")[0] for message in self.messages]
        if self.whole:
            assert live == said_so_far[0 if read.checkpoint is None else read.checkpoint.folded :]
        else:
            stored = Counter(text_of(message).split(":")[0] for message in session.kept)
            assert {name: stored[name] for name in said_so_far} == dict.fromkeys(said_so_far, 1)
        if self.processes == [session] and tried(
            lambda: session.prepare(self.messages) if self.whole else session.prepare_new([])
        ):
            read = session.reread()
            assert view(read, shape) == view(session.log, shape)
            assert (read.calibration, read.limits) == (session.log.calibration, session.log.limits)


def insisting(act: Callable[[], Any]) -> Any:
    """What a call gives; one that broke off is made again."""
    for _ in range(MOST_FAILURES):
        try:
            return act()
        except (StoreError, Ended):
            continue
    raise AssertionError("it never went through")


def tried(act: Callable[[], Any]) -> bool:
    """Whether a call that may be refused was not."""
    try:
        insisting(act)
    except (UsageError, WindowExceeded):
        return False
    return True


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_session_survives_whatever_happens(seed: int, whole: bool) -> None:
    """B1, B8, B13, B14: through failures, refusals, undoing and restarts everything said is there once, and requests fit."""
    Storm(seed, whole=whole).live(40)
