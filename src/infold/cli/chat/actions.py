"""Carry out the commands of a chat."""

from collections.abc import Callable

import click
from rich.text import Text

from infold.agent.run import AgentRun
from infold.cli.chat.commands import GivenCommand
from infold.cli.chat.pages import context_page, help_page
from infold.cli.chat.screen import Screen, changes_in, draw_change
from infold.cli.chat.status import Status, newest_overhead
from infold.cli.render import checkpoint_panel
from infold.cli.sessions import sessions
from infold.core.entries import split_handle
from infold.errors import UsageError
from infold.reports.contents import view_contents
from infold.reports.text import describe_part, one_line, part_text, printable
from infold.session.titles import SESSION, title_of, titles_of

MOST_PARTS = 5
"""Large parts that /context shows."""


class ChatActions:
    """The commands on one session."""

    def __init__(self, work: AgentRun, screen: Screen, status: Callable[[], Status], *, store: str | None) -> None:
        self._work = work
        self._screen = screen
        self._status = status
        self._store = store
        self._actions: dict[str, Callable[[str], None]] = {
            "compact": self._compact,
            "undo": self._undo,
            "context": self._context,
            "recall": self._recall,
            "show": self._show,
            "pin": self._pin,
            "unpin": self._unpin,
            "continue": self._continue,
            "title": self._title,
            "sessions": self._sessions,
            "help": lambda _: self._screen.print(help_page()),
        }

    def carry_out(self, command: GivenCommand) -> None:
        """Carry out a command; raise `InfoldError` if it fails."""
        self._actions[command.name](command.argument)

    # The window.

    def _compact(self, focus: str) -> None:
        self._check_not_empty()
        before = self._work.session.log.checkpoint_sequence
        self._screen.shows_summary = True
        try:
            with self._screen.working("compacting"):
                ready = self._work.session.compact(focus)
        finally:
            self._screen.shows_summary = False
        log = self._work.session.log
        if log.checkpoint is not None and log.checkpoint_sequence != before:
            self._screen.print(checkpoint_panel(printable(log.checkpoint.text), plain=self._plain))
        elif not ready.events:
            self._screen.note("nothing was folded: there is too little to gain yet")

    def _undo(self, _: str) -> None:
        with self._screen.working("undoing"):
            self._work.session.undo()

    def _context(self, _: str) -> None:
        session = self._work.session
        contents = view_contents(
            session.log,
            newest_overhead(self._work),
            tokens=self._status().tokens,
            limit_tokens=session.limit_tokens,
            window_tokens=session.window_tokens,
            most_parts=MOST_PARTS,
        )
        self._screen.print(*context_page(contents, width=self._screen.console.width, plain=self._plain))

    def _pin(self, handle: str) -> None:
        session = self._work.session
        if not handle:
            pinned = sorted(session.log.pins, key=split_handle)
            self._screen.note(f"pinned: {', '.join(pinned)}" if pinned else "nothing is pinned; /context shows handles")
            return
        session.pin(handle)
        self._screen.note(f"pinned {handle}{self._describe(handle)}")

    def _unpin(self, handle: str) -> None:
        if not handle:
            raise UsageError("name the part to release: /unpin HANDLE; /pin lists the pinned parts")
        if handle not in self._work.session.log.pins:
            raise UsageError(f"{handle} is not pinned; /pin lists the pinned parts")
        self._work.session.unpin(handle)
        self._screen.note(f"released {handle}{self._describe(handle)}")

    def _describe(self, handle: str) -> str:
        """Return what a part is and how it begins, if it is in view."""
        placed = self._work.session.log.find(handle)
        if placed is None:
            return ""
        part = placed.message.parts[split_handle(handle)[1]]
        return f": {describe_part(part)}, {one_line(part_text(part), 60)}"

    # Messages and results.

    def _recall(self, query: str) -> None:
        if not query:
            raise UsageError("name what to look for: /recall WORDS, or a handle such as 12.0")
        self._screen.print(Text(printable(self._work.session.recall(query))))

    def _show(self, which: str) -> None:
        if "." in which:
            self._recall(which)
            return
        if which and not which.isdecimal():
            raise UsageError(f"not the number of a result: {which!r}; /show shows the newest, /show 3 the third")
        done = self._screen.results.find(int(which) if which else None)
        if done is None:
            raise UsageError("there is no such result in this chat; /recall finds older ones")
        called, answered = done.called, done.answered
        heading = Text(f"{done.number}  {printable(called.tool)}  {one_line(called.what, 400)}", style="bold cyan")
        output = Text(printable(answered.output.expandtabs()))
        self._screen.print(heading, output, *map(draw_change, changes_in(done)))

    def _continue(self, _: str) -> None:
        self._check_not_empty()
        with self._screen.working("thinking"):
            self._work.go_on()

    # Sessions.

    def _title(self, text: str) -> None:
        if text:
            self._check_not_empty()
            self._work.session.title(one_line(text))
        self._screen.note(self.title() or "this session has no title yet")

    def title(self) -> str:
        """Return the last title the session was given, or else one made of its first message."""
        store, key = self._work.store, self._work.key
        given = titles_of(entry for _, entry in reversed(list(store.newest_first(key)))).get(SESSION, "")
        return given or title_of(store, key)

    def _sessions(self, _: str) -> None:
        self._screen.print()
        click.Context(sessions).invoke(sessions, most=10, store=self._store, tenant=None, as_json=False)

    def _check_not_empty(self) -> None:
        if not self._work.session.log.next_sequence:
            raise UsageError("the session is empty; send a prompt first")

    @property
    def _plain(self) -> bool:
        console = self._screen.console
        return console.color_system is None or console.no_color or console.options.ascii_only
