"""An agent in a real project, asked to work by the real command or in this process, against a model that plays a script.

A project is a git repository in a temporary folder, with a home and a data folder of its own beside it, so that nothing of the
machine's user is read or written.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from tests.support.provider_rules import problems

from infold.agent.agents import TITLE
from infold.core.entries import Entry, MessageEntry
from infold.core.messages import Message, SessionId, SystemMessage, text_of
from infold.core.summary_request import COMPACTION_AGENT
from infold.formats.registry import format_named
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.script import Say, Script, ScriptedAnswer, ScriptedRequest, in_turn

__all__ = [
    "PROVIDERS",
    "Director",
    "Place",
    "base_of",
    "entries_of",
    "events_in",
    "flat",
    "infold",
    "messages_of",
    "place_in",
    "problems_of",
    "session_ids",
    "started",
    "told_to",
    "tree_of",
]

PROVIDERS = {"openai-chat": "/v1", "openai": "/v1", "anthropic": ""}
"""Who is asked, and what of the address its SDK wants to be given."""

LIMIT_SECONDS = 60
KEYS = {"OPENAI_API_KEY": "sk-of-the-test", "ANTHROPIC_API_KEY": "sk-of-the-test"}
FOREIGN = ("INFOLD_", "OPENCODE_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "XDG_", "GIT_")
"""How variables begin that would change what happens."""


class Place(Struct, frozen=True):
    """A project, and the home of whoever works in it."""

    root: Path
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a process that works here."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return {**kept, **KEYS, "HOME": str(self.home), "XDG_DATA_HOME": str(self.home / "data")}

    @property
    def store(self) -> Path:
        """Where the sessions are."""
        return self.home / "data" / "infold" / "sessions.sqlite3"

    def git(self, *arguments: str) -> str:
        """What git says in the project."""
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", *arguments]
        ran = subprocess.run(command, cwd=self.root, env=self.environ, capture_output=True, text=True, check=True)
        return ran.stdout


def place_in(folder: Path, tree: Mapping[str, str] = {"README.md": "# A project\n"}) -> Place:
    """A project with these files in its first commit."""
    place = Place(folder / "project", folder / "home")
    place.root.mkdir()
    place.home.mkdir()
    for name, text in tree.items():
        path = place.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    place.git("init", "-q")
    place.git("add", "-A")
    place.git("commit", "-q", "-m", "begin")
    return place


def tree_of(place: Place) -> dict[str, str]:
    """The files of the project that git does not ignore."""
    names = place.git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {name: (place.root / name).read_text("utf-8") for name in names if name}


# The model.


class Director:
    """Plays the replies of a script one after the other; answers requests for a title and for summaries beside them.

    `main` are the requests that ask for the next reply, `asides` how often a title and a summary were asked for.
    """

    def __init__(
        self, replies: Sequence[ScriptedAnswer], summaries: Script = in_turn(Say("The work goes on as asked."))
    ) -> None:
        self.main: list[ScriptedRequest] = []
        self.titles = self.summaries = 0
        self._replies = iter(replies)
        self._summarise = summaries

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """What the model says to a request."""
        told = told_to(request)
        if TITLE.system_text in told:
            self.titles += 1
            return Say("A piece of work")
        if COMPACTION_AGENT.system_text in told:
            self.summaries += 1
            return self._summarise(request)
        self.main.append(request)
        return next(self._replies)


def told_to(request: ScriptedRequest) -> str:
    """The system prompt of a request, whichever way it is sent."""
    beside = format_named(request.format).system_text(request.body)
    return "\n".join(
        (beside, *(text_of(message) for message in request.messages if isinstance(message, SystemMessage)))
    )


def flat(request: ScriptedRequest) -> str:
    """All that the messages of a request say, on one line."""
    return " ".join(" ".join(text_of(message) for message in request.messages).split())


def problems_of(request: ScriptedRequest) -> tuple[str, ...]:
    """What a provider would refuse in the messages of a request, whatever their size."""
    wire = format_named(request.format)
    return problems(wire, request.body[wire.items_field])


def base_of(provider: str, url: str) -> str:
    """The address to give to a provider's SDK."""
    return url + PROVIDERS[provider]


# The command.


def infold(
    place: Place, *arguments: str, environ: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """The command, run in the project to its end, with nobody at a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "infold", *arguments],
        cwd=place.root,
        env=place.environ if environ is None else dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )


@contextmanager
def started(place: Place, *arguments: str, out: IO[str] | int = subprocess.PIPE) -> "Iterator[subprocess.Popen[str]]":
    """The command, running, with its standard output in a pipe or a file; killed at the end of the block if it still runs."""
    command = [sys.executable, "-m", "infold", *arguments]
    with subprocess.Popen(
        command,
        cwd=place.root,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def events_in(output: str) -> list[dict[str, Any]]:
    """What `--json` wrote; a line that a kill cut short is none."""
    whole = output.splitlines() if output.endswith("\n") else output.splitlines()[:-1]
    return [json.loads(line) for line in whole]


# The log.


def session_ids(place: Place) -> list[str]:
    """The sessions there are; none where there is no store."""
    if not place.store.exists():
        return []
    with _store(place) as store:
        return [stored.key.session_id for tenant in store.tenants() for stored in store.sessions(tenant)]


def entries_of(place: Place, session_id: str = "") -> list[Entry]:
    """All entries of a session, or of the only one, oldest first."""
    chosen = session_id or _only(session_ids(place))
    with _store(place) as store:
        return [entry for _, entry in store.newest_first(SessionKey("", SessionId(chosen)))][::-1]


def messages_of(entries: Sequence[Entry]) -> list[Message]:
    """The messages among entries."""
    return [entry.message for entry in entries if isinstance(entry, MessageEntry)]


def _only(ids: list[str]) -> str:
    assert len(ids) == 1, ids
    return ids[0]


@contextmanager
def _store(place: Place) -> Iterator[SqliteStore]:
    store = SqliteStore(place.store)
    try:
        yield store
    finally:
        store.close()
