"""Change a request that a provider refused, for one more try: smaller, without thinking, or without the provider's own summary.

What the refusal says is learned and written into the log before the request is prepared again, so that nothing is lost if that
fails.
"""

from collections.abc import Callable

from msgspec.structs import replace

from infold.core.compact import apply_step
from infold.core.cut import Cut
from infold.core.entries import Entry, Rejection
from infold.core.events import Event, OutputLowered, Rejected, Repaired
from infold.core.gauge import PlanInputs, estimated_tokens
from infold.core.log import Log
from infold.core.plan import Stuck, fold_at
from infold.errors import WindowExceeded
from infold.formats.overflow import Overflow
from infold.session.context import NO_EXTRAS, RequestContext, window_exceeded
from infold.session.report import Ready
from infold.session.writer import LogWriter

MOST_REJECTIONS = 1
"""A request that a provider refused is made smaller and sent once more; a second refusal is raised."""


TOTAL_SHARE = 0.05
"""A reported size is that of prompt and output together if, less the output, it is this near to the estimate of the prompt."""


class Recovery:
    """Recovers one request of a session, until it is answered or another is made.

    `append` appends entries, made for the log as it then is.
    """

    def __init__(
        self,
        writer: LogWriter,
        context: RequestContext,
        now_ms: Callable[[], int],
        append: Callable[[Callable[[Log], tuple[Entry, ...]]], None],
    ) -> None:
        self._writer = writer
        self._context = context
        self._now_ms = now_ms
        self._append = append
        self._rejections = 0
        self._refused_tokens: int | None = None

    def recover(self, overflow: Overflow, prepare: Callable[[], Ready]) -> Ready | None:
        """Return the request for one more try, as `prepare` makes it; `None` if nothing in it can be what was refused."""
        if overflow.native:
            return self._recover_native(prepare) if self._log.native else None
        if overflow.bound_thinking:
            return self._recover_thinking(prepare)
        return self._recover_size(prepare, overflow)

    def forget(self) -> None:
        """Take it that the smaller request was never sent: the next refusal is of the one before."""
        self._rejections = 0

    @property
    def _log(self) -> Log:
        return self._writer.log

    @property
    def _inputs(self) -> PlanInputs:
        return self._context.plan_inputs(self._log)

    def _estimate(self) -> int:
        return estimated_tokens(self._log, self._inputs)

    def _recover_size(self, prepare: Callable[[], Ready], overflow: Overflow) -> Ready:
        """Make the request smaller that a provider refused; nothing that was recorded is lost."""
        if self._rejections >= MOST_REJECTIONS:
            raise self._exceeded()
        estimated = self._estimate()
        if self._refused_tokens is not None and estimated < self._refused_tokens:
            self._rejections += 1  # an earlier try made it smaller and then broke off
            return prepare()
        self._refused_tokens = estimated
        overflow = self._without_output(overflow, estimated)
        over_bytes = self._log.media_bytes or None if overflow.bytes_limit else None
        rejection = Rejection(
            estimated,
            overflow.prompt_tokens,
            overflow.limit_tokens,
            over_bytes,
            self._now_ms(),
            believed_tokens=self._inputs.budget.limit_tokens or None,
            for_output=self._is_for_output(overflow, estimated),
        )
        self._append(lambda _: (rejection,))
        self._writer.publish(Rejected(self._log.session_id, estimated, overflow.prompt_tokens, overflow.limit_tokens))
        sent_output_tokens = self._context.sent_output_tokens
        ready = prepare()
        self._rejections += 1
        is_same = all(isinstance(event, Repaired | OutputLowered) for event in ready.events)
        if is_same and ready.output_tokens == sent_output_tokens:
            raise self._exceeded()
        return ready

    def _without_output(self, overflow: Overflow, estimated_tokens: int) -> Overflow:
        """Return a refusal with the size of the prompt if the provider reported that of prompt and output together."""
        prompt = (overflow.prompt_tokens or 0) - self._context.sent_output_tokens
        is_total = abs(prompt - estimated_tokens) <= TOTAL_SHARE * estimated_tokens
        return replace(overflow, prompt_tokens=prompt) if self._context.sent_output_tokens and is_total else overflow

    def _is_for_output(self, overflow: Overflow, estimated_tokens: int) -> bool:
        """Return whether the refused request fits the limit that the provider names if it asks for less output."""
        prompt, limit = overflow.prompt_tokens or estimated_tokens, overflow.limit_tokens or 0
        least = (self._context.extras or NO_EXTRAS).output.least_tokens
        return prompt + least <= limit < prompt + self._context.sent_output_tokens

    def _recover_thinking(self, prepare: Callable[[], Ready]) -> Ready | None:
        """Remove all thinking from a request that was refused for it, and remember that the model binds it.

        If the request holds none, the provider misses thinking in the work under way: then all of it is folded. `None` if there
        is nothing to fold either.
        """
        shown = self._log.shown_thinking
        if not shown:
            return self._fold_unfinished_work(prepare)
        estimated = self._estimate()
        rejection = Rejection(estimated, rejected_ms=self._now_ms(), bound_thinking=True)
        self._append(lambda _: (rejection,))
        self._writer.publish(Rejected(self._log.session_id, estimated, outdated_thinking=shown))
        return prepare()

    def _recover_native(self, prepare: Callable[[], Ready]) -> Ready:
        """Show infold's own text in place of a summary that its provider refuses, from now on in this session."""
        estimated = self._estimate()
        self._append(lambda _: (Rejection(estimated, rejected_ms=self._now_ms(), native=True),))
        self._writer.publish(Rejected(self._log.session_id, estimated, native=True))
        return prepare()

    def _fold_unfinished_work(self, prepare: Callable[[], Ready]) -> Ready | None:
        """Fold everything by code, replies whose thinking is gone and the results they wait for included."""
        if not any(placed.has_thinking for placed in self._log.live):
            return None
        inputs = replace(self._inputs, summariser=False)
        events: tuple[Event, ...] = ()

        def entries(log: Log) -> tuple[Entry, ...]:
            nonlocal events
            step = fold_at(log, Cut.at(log, log.length), inputs, "overflow")
            carried = apply_step(log, step, inputs, now_ms=self._now_ms())
            events = carried.events
            return carried.entries

        self._append(entries)
        self._writer.publish(*events)
        ready = prepare()
        return replace(ready, report=replace(ready.report, events=(*events, *ready.events)))

    def _exceeded(self) -> WindowExceeded:
        inputs = self._inputs
        floor = estimated_tokens(self._log, inputs)
        return window_exceeded(Stuck(floor, inputs.budget.limit_tokens, inputs.overhead_tokens))
