"""What the commands of a chat do."""

from collections.abc import Callable

import click
from rich.text import Text

from infold.agent.run import AgentRun
from infold.cli.chat.commands import Order
from infold.cli.chat.pages import context_page, fill_of, help_page
from infold.cli.chat.screen import Screen, changes_in, drawn_change
from infold.cli.chat.status import Status, overhead_in
from infold.cli.render import checkpoint_panel, content_of, legible, one_line, what_of
from infold.cli.sessions import sessions
from infold.core.entries import split_handle
from infold.engine.titles import SESSION, title_of, titles_of
from infold.errors import UsageError


class Acts:
    """The commands at work on one session; `status` is how it stands."""

    def __init__(self, work: AgentRun, screen: Screen, status: Callable[[], Status], *, store: str | None) -> None:
        self._work = work
        self._screen = screen
        self._status = status
        self._store = store
        self._acts: dict[str, Callable[[str], None]] = {
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

    def carry_out(self, order: Order) -> None:
        """Do what was ordered; raises `InfoldError` where it cannot be done."""
        self._acts[order.name](order.rest)

    # The window.

    def _compact(self, focus: str) -> None:
        self._need_something()
        before = self._work.session.log.checkpoint_sequence
        self._screen.shows_summary = True
        try:
            with self._screen.working("compacting"):
                ready = self._work.session.compact(focus)
        finally:
            self._screen.shows_summary = False
        log = self._work.session.log
        if log.checkpoint is not None and log.checkpoint_sequence != before:
            self._screen.print(checkpoint_panel(legible(log.checkpoint.text), plain=self._plain))
        elif not ready.events:
            self._screen.note("nothing was folded: there is too little to gain yet")

    def _undo(self, _: str) -> None:
        with self._screen.working("undoing"):
            self._work.session.undo()

    def _context(self, _: str) -> None:
        session, status = self._work.session, self._status()
        fill = fill_of(
            session.log,
            overhead_in(self._work),
            tokens=status.tokens,
            limit_tokens=session.limit_tokens,
            window_tokens=session.window_tokens,
        )
        self._screen.print(*context_page(fill, width=self._screen.console.width, plain=self._plain))

    def _pin(self, handle: str) -> None:
        session = self._work.session
        if not handle:
            pinned = sorted(session.log.pins, key=split_handle)
            self._screen.note(f"pinned: {', '.join(pinned)}" if pinned else "nothing is pinned; /context names handles")
            return
        session.pin(handle)
        self._screen.note(f"pinned {handle}{self._gist(handle)}")

    def _unpin(self, handle: str) -> None:
        if not handle:
            raise UsageError("say which part to let go: /unpin HANDLE; /pin lists what is pinned")
        if handle not in self._work.session.log.pins:
            raise UsageError(f"{handle} is not pinned; /pin lists what is")
        self._work.session.unpin(handle)
        self._screen.note(f"released {handle}{self._gist(handle)}")

    def _gist(self, handle: str) -> str:
        """What a part is and how it begins, where it is in view."""
        placed = self._work.session.log.find(handle)
        if placed is None:
            return ""
        part = placed.message.parts[split_handle(handle)[1]]
        return f": {what_of(part)}, {one_line(content_of(part), 60)}"

    # What was said and done.

    def _recall(self, query: str) -> None:
        if not query:
            raise UsageError("say what to look for: /recall WORDS, or a handle such as 12.0")
        self._screen.print(Text(legible(self._work.session.recall(query))))

    def _show(self, which: str) -> None:
        if "." in which:
            self._recall(which)
            return
        if which and not which.isdecimal():
            raise UsageError(f"{which!r} is no number of a result; /show shows the newest, /show 3 the third")
        done = self._screen.results.find(int(which) if which else None)
        if done is None:
            raise UsageError("there is no such result in this chat; /recall finds older ones")
        called, answered = done.called, done.answered
        heading = Text(f"{done.number}  {legible(called.tool)}  {one_line(called.what, 400)}", style="bold cyan")
        output = Text(legible(answered.output.expandtabs()))
        self._screen.print(heading, output, *map(drawn_change, changes_in(done)))

    def _continue(self, _: str) -> None:
        self._need_something()
        with self._screen.working("thinking"):
            self._work.go_on()

    # Sessions.

    def _title(self, text: str) -> None:
        if text:
            self._need_something()
            self._work.session.title(one_line(text))
        self._screen.note(self.title() or "this session has no title yet")

    def title(self) -> str:
        """What the session is called: the last title it was given, else what its first message says."""
        store, key = self._work.store, self._work.key
        given = titles_of(entry for _, entry in reversed(list(store.newest_first(key)))).get(SESSION, "")
        return given or title_of(store, key)

    def _sessions(self, _: str) -> None:
        self._screen.print()
        click.Context(sessions).invoke(sessions, most=10, store=self._store, tenant=None, as_json=False)

    def _need_something(self) -> None:
        if not self._work.session.log.next_sequence:
            raise UsageError("nothing was said yet; say something first")

    @property
    def _plain(self) -> bool:
        console = self._screen.console
        return console.color_system is None or console.no_color or console.options.ascii_only
