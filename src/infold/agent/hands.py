"""An agent's hands: its tools in a place, what they may do there, and the working tree before and after.

What a call wishes to do is held against the rules; what they leave open a person is asked, and what the person answers for good
holds as long as these hands do.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Timer

from msgspec.structs import replace

from infold.agent.events import Called, Happening, Noted, Refused
from infold.agent.instructions import Instructions, instructions_for
from infold.agent.permissions import Consent, Rules, decide, granted, lacking
from infold.agent.running import LONGEST_GIST, Running, broken_off, gist_of, run_call
from infold.agent.snapshots import Snapshots
from infold.agent.tools.skill import SKILL, announced
from infold.agent.tools.tool import Tool, Trace, Wish, Workplace, spec_of
from infold.core.logged_message import Rendering
from infold.core.messages import ToolCallPart, ToolResultPart
from infold.ports import Clock, ToolSpec

WIDE = ("list", "search")
PLACED = ("read", "write", "edit", *WIDE)
"""Tools whose wish is a path; what they touch brings the instructions of its folder along. The wide ones touch whole folders."""

CHANGING = ("write", "edit")
"""Tools that are there to change files; who has none of them, and may not run what it likes, changes nothing to speak of."""

ANY_COMMAND = Wish("shell", "true")

SNAPSHOTTING = "taking a snapshot of the folder, for infold diff; agent.snapshots = false in your settings does without"


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
        self._trace = Trace()
        self._noted = ""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them, and with them the skills there are."""
        told = (spec_of(tool) for tool in self._tools.values())
        return tuple(announced(spec, self.workplace) if spec.name == SKILL.name else spec for spec in told)

    @property
    def takes_snapshots(self) -> bool:
        """Whether the working tree is kept: not for an agent that has nothing to change it with."""
        changes = any(name in self._tools for name in CHANGING) or decide(ANY_COMMAND, self._rules) == "allow"
        return self._snapshots is not None and changes

    def snapshot(self) -> str:
        """The working tree as it is now, by the id of its snapshot; empty where none is taken."""
        return self._snapshots.take() if self._snapshots is not None and self.takes_snapshots else ""

    def first_snapshot(self, tell: Callable[[Happening], None], silence_seconds: float) -> str:
        """The working tree as the work finds it; that of a large one takes a while, which is told after so much silence.

        Where there is none to be had, that is told once.
        """
        telling = Timer(silence_seconds, tell, (Noted(SNAPSHOTTING),))
        telling.daemon = True
        try:
            if self.takes_snapshots:
                telling.start()
            taken = self.snapshot()
        finally:
            telling.cancel()
        note = self._snapshots.note if self._snapshots is not None else ""
        if note and note != self._noted:
            self._noted = note
            tell(Noted(f"{note}; infold diff will not know what this changes"))
        return taken

    def tidy(self) -> None:
        """Let go of snapshots that nobody will ask for."""
        if self._snapshots is not None and self.takes_snapshots:
            self._snapshots.tidy()

    def instructions(self, most_tokens: int = 0) -> Instructions:
        """What the project and the user tell every agent here, as it stands on disk now; within so many tokens, if it must be."""
        place = self.workplace
        found = instructions_for(
            place.root, self._touched, place.home, most_tokens=most_tokens, is_trusted=place.is_trusted
        )
        return replace(found, ignored=tuple(dict.fromkeys((*place.ignored, *found.ignored))))

    def run(self, call: ToolCallPart, tell: Callable[[Happening], None], rendering: Rendering) -> ToolResultPart:
        """Carry out one call, and tell of it before; an interrupt passes through, and `broken_off` answers for it."""
        self._trace = Trace()
        place, allow = replace(self.workplace, trace=self._trace), partial(self._permits, call, tell)
        running = Running(self._tools, place, allow, rendering, self._clock)
        tell(Called(call.call_id, call.tool, call.arguments, gist_of(call, running)))
        return run_call(call, running)

    def broken_off(self, call: ToolCallPart) -> ToolResultPart:
        """The result of the call that was being run when something broke it off."""
        return broken_off(call, self._trace)

    def _permits(self, call: ToolCallPart, tell: Callable[[Happening], None], wish: Wish) -> bool:
        is_permitted = self._allows(wish)
        if not is_permitted:
            tell(Refused(call.call_id, wish.tool, wish.what[:LONGEST_GIST], lacking(wish, self._rules)))
        return is_permitted

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
