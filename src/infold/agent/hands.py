"""An agent's hands: its tools in a place, what they may do there, and the working tree before and after.

What a call wishes to do is held against the rules; what they leave open a person is asked, and what the person answers for good
holds as long as these hands do.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from infold.agent.events import Called, Happening
from infold.agent.instructions import instructions_for
from infold.agent.permissions import Consent, Rules, decide, granted
from infold.agent.running import Running, gist_of, run_call
from infold.agent.snapshots import Snapshots
from infold.agent.tools.tool import Tool, Wish, Workplace, spec_of
from infold.core.messages import ToolCallPart, ToolResultPart
from infold.core.stubs import Rendering
from infold.ports import Clock, ToolSpec

__all__ = ["Hands"]

WIDE = ("list", "search")
PLACED = ("read", "write", "edit", *WIDE)
"""Tools whose wish is a path; what they touch brings the instructions of its folder along. The wide ones touch whole folders."""


class Hands:
    """Tools at work in one place; `consent` is asked where the rules leave it open."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        workplace: Workplace,
        *,
        rules: Rules,
        consent: Callable[[Wish], Consent],
        clock: Clock,
        snapshots: Snapshots | None = None,
    ) -> None:
        self.workplace = workplace
        self._tools = tools
        self._rules = rules
        self._consent = consent
        self._clock = clock
        self._snapshots = snapshots
        self._touched: dict[Path, None] = {}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them."""
        return tuple(map(spec_of, self._tools.values()))

    def snapshot(self) -> str:
        """The working tree as it is now, by the id of its snapshot; empty where none is taken."""
        return "" if self._snapshots is None else self._snapshots.take()

    def tidy(self) -> None:
        """Let go of snapshots that nobody will ask for."""
        if self._snapshots is not None:
            self._snapshots.tidy()

    def instructions(self) -> str:
        """What the project and the user tell every agent here, as it stands on disk now."""
        return instructions_for(self.workplace.root, self._touched, self.workplace.home)

    def run(self, call: ToolCallPart, tell: Callable[[Happening], None], rendering: Rendering) -> ToolResultPart:
        """Carry out one call, and tell of it before; an interrupt passes through."""
        running = Running(self._tools, self.workplace, self._allows, rendering, self._clock)
        tell(Called(call.call_id, call.tool, call.arguments, gist_of(call, running)))
        return run_call(call, running)

    def _allows(self, wish: Wish) -> bool:
        if wish.tool in PLACED:
            place = self.workplace.root / wish.what
            self._touched.setdefault(place if wish.tool in WIDE else place.parent)
        answer = decide(wish, self._rules)
        if answer != "ask":
            return answer == "allow"
        consent = self._consent(wish)
        if consent == "always":
            self._rules = (*self._rules, *granted(wish))
        return consent != "no"
