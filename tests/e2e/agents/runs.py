"""One run of an agent: its work through a gateway to an upstream that refuses what is too large, and what has to be true of it.

`test_agents.py` demands it; `table.py` writes it down.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct
from tests.support.provider_rules import problems

from infold.core.entries import Checkpoint, Clipping, Entry, MessageEntry, Pruning
from infold.core.messages import AssistantMessage, calls_of
from infold.formats.registry import format_named
from infold.stores.sqlite import SqliteStore
from infold.testing.script import ScriptedRequest
from infold.testing.scripted_server import ScriptedServer

from .clients import Agent, Finished, Home, run
from .jobs import DONE, NEXT_TASK, RULE, TASK, TOTAL, Job, is_main, make_files
from .serving import serving

__all__ = ["FEW_FILES", "LARGE_WINDOW", "Ended", "breaks", "check_finished", "check_small", "check_untouched", "work"]

LARGE_WINDOW = 200_000
FEW_FILES, SHIPS = 2, 60
"""Files of some 1,300 tokens each: `many_files` of an agent are more than its window holds, beside its own prompt."""

COMPACTIONS = (Checkpoint, Pruning, Clipping)


class Ended(Struct, frozen=True):
    """A run: how it ended, what the upstream was asked, and the sessions that the gateway kept of it."""

    agent: Agent
    finished: Finished
    total: str
    requests: tuple[ScriptedRequest, ...]
    sessions: dict[str, tuple[Entry, ...]]

    @property
    def main(self) -> list[ScriptedRequest]:
        """The requests of the agent's own loop."""
        return [request for request in self.requests if is_main(request, has_tools=self.agent.shell is not None)]

    @property
    def work(self) -> list[tuple[Entry, ...]]:
        """The sessions in which a tool was called; of an agent without tools, those that were answered."""
        return [entries for entries in self.sessions.values() if any(map(self._is_work, entries))]

    @property
    def folds(self) -> int:
        """How often the session was compacted."""
        return sum(isinstance(entry, COMPACTIONS) for entry in self.work[0])

    @property
    def largest(self) -> int:
        """The tokens of the largest request."""
        return max(request.tokens for request in self.requests)

    def _is_work(self, entry: Entry) -> bool:
        if not isinstance(entry, MessageEntry):
            return False
        return bool(calls_of(entry.message)) if self.agent.shell else isinstance(entry.message, AssistantMessage)


def work(
    agent: Agent,
    folder: Path,
    *files: int,
    window: int,
    told_window: int | None = None,
    counts_output: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Let an agent count the ships in so many files, through a gateway told of a window, to an upstream that has one.

    Further numbers are further tasks of the same session, each through a gateway that was just started. `counts_output`: the
    upstream also refuses a request that does not fit with the output it asks for. `variables` are settings of the gateway.
    """
    home = [folder / name for name in ("own", "work", "gateway")]
    for place in home:
        place.mkdir()
    make_files(home[1], max(files), SHIPS)
    total = home[1] / "total.txt"
    job = Job(agent.shell, *files, last_command=agent.last_command)
    with ScriptedServer(job, window_tokens=window, counts_output=counts_output) as upstream:
        for number, count in enumerate(files):
            total.unlink(missing_ok=True)
            command = agent.again(NEXT_TASK) if number and agent.again else agent.command(TASK)
            typed = agent.typed(TASK, count) if agent.typed else ""
            with serving(home[2], upstream.url, told_window or window, **(variables or {})) as address:
                finished = run(agent, Home(home[0], home[1], address), command, typed)
    written = total.read_text() if total.exists() else ""
    return Ended(agent, finished, written, upstream.requests, _sessions(home[2]))


def _sessions(folder: Path) -> dict[str, tuple[Entry, ...]]:
    with SqliteStore(next(folder.glob("*.sqlite3"))) as store:
        keys = [stored.key for tenant in store.tenants() for stored in store.sessions(tenant)]
        return {key.session_id: tuple(entry for _, entry in store.newest_first(key)) for key in keys}


def check_finished(ended: Ended) -> None:
    """The work is done, by the agent's own tools, the agent shows the last reply, and all is kept as one session."""
    assert ended.finished.status == 0, ended.finished
    assert ended.total.strip() == str(TOTAL), ended.finished
    assert DONE in " ".join(ended.finished.shown.split()), ended.finished
    assert len(ended.work) == 1, {name: len(entries) for name, entries in ended.sessions.items()}
    for request in ended.main:
        wire = format_named(request.format)
        assert wire.name == ended.agent.wire
        assert problems(wire, request.body[wire.items_field]) == ()
        assert RULE in msgspec.json.encode(request.body[wire.items_field]).decode()


def check_untouched(ended: Ended) -> None:
    """Nothing was compacted, and each request goes on from the one before it, where the agent lets it."""
    assert ended.folds == 0
    if not ended.agent.moves_messages:
        assert all(isinstance(entry, MessageEntry) for entry in ended.work[0])
        assert breaks(ended.main) == 0


def check_small(ended: Ended) -> None:
    """The session was compacted, no request was too large, and only compactions break the provider's cache."""
    assert ended.folds > 0
    assert ended.largest <= ended.agent.window
    assert breaks(ended.main) <= ended.folds or ended.agent.moves_messages


def items_of(request: ScriptedRequest) -> list[str]:
    """The messages of a request as text, without the marks for the provider's cache, which agents move.

    A text is the same as the one block that has to stand in its place where it is marked.
    """
    items = request.body[format_named(request.format).items_field]
    return [json.dumps(_unmarked(item), sort_keys=True) for item in items]


def _unmarked(value: object) -> object:
    if isinstance(value, dict):
        return {name: _blocks(_unmarked(inner)) for name, inner in value.items() if name != "cache_control"}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value


def _blocks(value: object) -> object:
    return value[0]["text"] if isinstance(value, list) and len(value) == 1 and _is_text(value[0]) else value


def _is_text(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {"type", "text"}


def breaks(requests: Sequence[ScriptedRequest]) -> int:
    """How often a request does not go on from the one before it."""
    pairs = pairwise(map(items_of, requests))
    return sum(later[: len(earlier)] != earlier for earlier, later in pairs)
