"""An agent that works with a session and a strict provider, for laws about the steps that folds keep.

It brings its whole list with each request, only what is new, or the list that it was given back, as frameworks do that store it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st
from msgspec import Struct
from tests.support.agent_wire import ASKED, KINDS, OUTSIDE, PROVIDERS, STALE, Item, Provider, Work, call_id

from infold import Session, SessionSettings, WindowExceeded, open_store, preset
from infold.core.entries import KeptStep
from infold.core.log import Log
from infold.core.messages import AssistantMessage, FilePart, ToolMessage, calls_of, results_of, text_of
from infold.formats.codec import as_dict
from infold.formats.registry import GEMINI
from infold.ports import FullStore

FORMATS = sorted(PROVIDERS)
BINDING = ("anthropic-messages", "bedrock-converse")
"""Formats of models that bind thinking to what stands before it."""

STUB = re.compile(r"\[pruned(?:, failed)?(?:; recall (?P<handle>\d+\.\d+))?\](?:\n\[attached: [^\n]*\])?")

Bring: TypeAlias = Literal["all", "new", "shown"]


class Plan(Struct, frozen=True):
    """What an agent does over and over, how it is sent, and with which settings.

    `signs_from` is the number of the reply that is the first to have signed thinking, at the beginning of a turn. With
    `skips_thinking` some replies have none, except those of Gemini, which signs each step. `binds`: the provider checks
    what it signed. `learns`: that is not known before a refusal. `prunes`: stubs for old results may make room, too.
    """

    kinds: tuple[str, ...]
    brings: Bring = "all"
    window: int = 6_000
    memory: str | float = 0.3
    steps_share: float = 0.7
    recall: bool = True
    signs_from: int = 0
    skips_thinking: bool = False
    binds: bool = False
    learns: bool = False
    prunes: bool = True


PLANS = st.builds(
    Plan,
    st.lists(st.sampled_from(sorted(KINDS)), min_size=3, max_size=12).map(tuple),
    st.sampled_from(("all", "new", "shown")),
    st.sampled_from((6_000, 9_000)),
    st.sampled_from(("lean", "balanced", "rich", 0.3, 0.4)),
    st.sampled_from((0.2, 0.5, 0.7, 1.0)),
    st.booleans(),
    st.sampled_from((0, 0, 12, 30, 1_000)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


class Agent:
    """An agent that works with a session and a provider: its list, and the session's folds as they were made."""

    def __init__(self, name: str, plan: Plan, store: FullStore | None = None, session_id: str = "s") -> None:
        self.plan = plan
        self._is_signing = plan.signs_from == 0
        self.provider: Provider = PROVIDERS[name](self._thinks, binds=plan.binds)
        self.store = store or open_store("memory")
        self.session_id = session_id
        self.session = self.open()
        self.items: list[Item] = [self.provider.user(f"{ASKED}first: port it. Never touch vendor/.")]
        self.new: list[Item] = [*self.items]
        self.sent: list[Item] = []  # the request whose reply comes next
        self.refused: list[str] = []
        self.folds = 0
        self.kept = 0
        self.number = 0

    def open(self) -> Session:
        """Open the session, as a new process does."""
        plan, own = self.plan, preset("infold").with_memory(self.plan.memory)
        settings = SessionSettings(
            window=plan.window,
            policy=own.but(
                summary=own.summary.but(steps_share=plan.steps_share), prune=own.prune.but(enabled=plan.prunes)
            ),
            format=self.provider.wire.name,
            recall=plan.recall,
            bound_thinking=None if plan.learns else plan.binds and self.provider.wire.name in BINDING,
            now_ms=lambda: 1_700_000_000_000,
            environ={},
        )
        return Session(self.store, self.session_id, settings)

    def _thinks(self, number: int) -> bool:
        is_free = self.plan.skips_thinking and self.provider.wire is not GEMINI
        return self._is_signing and not (is_free and number % 3 == 1)

    def work(self, number: int) -> Work:
        """Return what the reply of that number does."""
        return KINDS[self.plan.kinds[number % len(self.plan.kinds)]](number)

    def steps(self, *, folds: int = 10, most: int = 90) -> Iterator[list[Item]]:
        """Work until so many folds were made, or so many steps; yield each request as it is sent, before its reply."""
        while self.folds < folds and self.number < most:
            try:
                sent = self.request()
            except WindowExceeded:  # a small window may have no room for what the user said and the newest step
                return
            yield sent
            work = self.work(self.number)
            body = self.provider.reply(self.number, work, self.sent)
            self.session.record(body)
            self.new = self.provider.results(self.number, work)
            self.items += [*map(as_dict, self.provider.wire.reply_items(body)), *self.new]
            self.number += 1
            self._is_signing = self._is_signing or (bool(work.asked) and self.number >= self.plan.signs_from)

    def request(self, **extras: Any) -> list[Item]:
        """Prepare the next request and have it judged; what is refused for bound thinking is recovered from once."""
        before = self.session.log.checkpoint_sequence
        ready = self.session.prepare_new(self.new, **extras) if self.plan.brings == "new" else self.session.prepare(
            self.items, **extras
        )  # fmt: skip
        refusal = self.provider.refusal(ready.messages)
        if "bound to a different conversation" in refusal and self.plan.learns and not self.refused:
            self.refused.append(refusal)
            again = self.session.recover({"error": {"type": "invalid_request_error", "message": refusal}})
            assert again is not None
            ready, refusal = again, self.provider.refusal(again.messages)
        assert refusal == "", refusal
        if self.session.log.checkpoint_sequence != before:
            self.folds += 1
            self.kept += len(self.session.log.steps)
        self.new = []
        self.sent = [*ready.messages]
        if self.plan.brings == "shown":
            self.items = [*ready.messages]
        return self.sent


def check_kept(log: Log, sent: Sequence[Item], agent: Agent) -> None:
    """Check that what is kept is whole, true, shown once, and can be recalled."""
    ids = Counter(call.call_id for step in log.steps for message in step.messages for call in calls_of(message))
    ids.update(call.call_id for logged in log.live for call in logged.calls)
    assert not [one for one, count in ids.items() if count > 1]
    said = Counter(re.findall(r"reply-\d+: ", str(sent)))
    assert not [one for one, count in said.items() if count > 1 + str(log.checkpoint_text).count(one)]
    check_settled(log, set(ids), agent)
    printed = {
        call_id(number, place): call.output
        for number in range(agent.number)
        for place, call in enumerate(agent.work(number).calls)
        if call.is_answered
    }
    for step in log.steps:
        check_step(step)
        for one, handle in handles_in(step):
            assert printed.get(one, "").partition("\n")[0] in agent.session.recall(handle, budget_tokens=200)


def handles_in(step: KeptStep) -> Iterator[tuple[str, str]]:
    """Yield the id of each call whose result is a stub, and the handle in it."""
    for result in (result for message in step.messages for result in results_of(message)):
        found = STUB.fullmatch(result.output)
        if found and found["handle"]:
            yield result.call_id, found["handle"]


def check_settled(log: Log, shown: set[str], agent: Agent) -> None:
    """Check that a failure that was settled is kept only with what settled it."""
    outcomes = [
        (call.fails, call_id(number, place))
        for number in range(agent.number)
        for place, call in enumerate(agent.work(number).calls)
        if call.arguments == {"command": "make test"}
    ]
    kept = {result.call_id for step in log.steps for message in step.messages for result in results_of(message)}
    for place, (fails, one) in enumerate(outcomes):
        settling = [later for failed, later in outcomes[place:] if not failed]
        assert not (fails and one in kept and settling) or shown.intersection(settling)


def check_step(step: KeptStep) -> None:
    """Check one kept step: a reply and the results of its calls, without content that may be old or from elsewhere."""
    reply, *results = step.messages
    assert isinstance(reply, AssistantMessage)
    assert all(isinstance(message, ToolMessage) for message in results)
    answered = [result for message in results for result in results_of(message)]
    assert [call.call_id for call in calls_of(reply)] == [result.call_id for result in answered]
    assert not any(isinstance(part, FilePart) for message in step.messages for part in message.parts)
    assert ASKED not in text_of(reply)
    for call, result in zip(calls_of(reply), answered, strict=True):
        assert call.tool not in ("todo_write", "recall")
        assert not result.files
        assert STUB.fullmatch(result.output) or (call.tool == "bash" and len(result.output) < 40)
        assert STALE not in result.output
        assert OUTSIDE not in result.output
