"""The tools of the MCP server, on one store for one tenant.

This module decides which session is meant and how each tool is described to a model. It does not know the protocol:
values in, text out, and infold's errors.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from infold.core.entries import split_handle
from infold.core.messages import COMPACT_TOOL_NAME, RECALL_TOOL_NAME, SessionId
from infold.core.tokens import estimate
from infold.errors import UnknownReference, UnknownSession, UsageError
from infold.formats.tools import COMPACT_DESCRIPTION, COMPACT_FOCUS, RECALL_DESCRIPTION, RECALL_QUERY, recall_query
from infold.ports import FullStore, SessionKey, StoredSession
from infold.reports.text import moment
from infold.session.media import Medium
from infold.session.recall import recall, recall_media

MOST_SESSIONS = 50
"""How many sessions are listed; an older one is named by its id."""

INSTRUCTIONS = """\
infold hides old parts of a long session to keep it inside the model's window. Nothing is lost: a stub such as \
[pruned: 5,120 characters of bash output; recall 42.1], or a number such as [42.1] behind a fact, is the handle of something \
hidden. Search with recall, read one part with read."""
"""The server's description for the client's model."""

_SESSION = {"type": "string", "description": "The session's id, if another than the one this server was started for."}
_HANDLE = {
    "type": "string",
    "description": 'A handle such as "42.1"; "42.1+6000" reads on from that character of a long part.',
}


class ToolListing(Struct, frozen=True):
    """A tool as a client lists it: its name, its description for a model, and its arguments as a JSON schema."""

    name: str
    description: str
    arguments: dict[str, Any]


def _schema(*required: str, **properties: object) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


TOOLS = (
    ToolListing(
        RECALL_TOOL_NAME,
        RECALL_DESCRIPTION,
        _schema("query", query={"type": "string", "description": RECALL_QUERY}, session=_SESSION),
    ),
    ToolListing(
        "read",
        "Reads one hidden part of a session as it was, by the handle that a stub or an answer of recall names. A part that is "
        "too long shows its beginning and its end, and how to read on.",
        _schema("handle", handle=_HANDLE, session=_SESSION),
    ),
    ToolListing(
        "sessions",
        "Lists the sessions that can be recalled from, the last changed first: when that was, how large each is, and its id.",
        _schema(),
    ),
    ToolListing(
        COMPACT_TOOL_NAME, COMPACT_DESCRIPTION, _schema(focus={"type": "string", "description": COMPACT_FOCUS})
    ),
)

NOTED = (
    "Noted. If your requests go through infold and enough of your view is filled, its earlier part is replaced by a summary "
    "before your next step; otherwise nothing happens. Continue with the next sub-task, and do not ask again for this one."
)
"""The answer to compact: the call itself, in the agent's next request, is what a gateway or a wrapped client acts on."""


class RecallTools(Struct, frozen=True):
    """The tools on a store, for a tenant, with a default session and a maximum size of answers.

    Without a tenant it is the unnamed one, or else the only tenant of the store, such as that of a gateway for one
    person; with several tenants it must be named.
    """

    store: FullStore
    tenant: str | None = None
    session: str = ""
    budget_tokens: int = 2_000

    def call(self, name: str, arguments: Mapping[str, object]) -> str:
        """Return a tool's answer; raise `UsageError` for an unknown tool or senseless arguments."""
        session = _text(arguments, "session")
        match name:
            case "recall":
                asked = {given: value for given, value in arguments.items() if given != "session"}
                return self.recall(recall_query(asked), session)
            case "read":
                return self.read(_text(arguments, "handle"), session)
            case "sessions":
                return self.sessions()
            case "compact":
                return NOTED
            case _:
                raise UsageError(f"there is no tool {name!r}; call {', '.join(tool.name for tool in TOOLS)}")

    def media(self, name: str, arguments: Mapping[str, object]) -> tuple[Medium, ...]:
        """Return the media under the handle that was asked for."""
        session = _text(arguments, "session")
        wanted = _text(arguments, "handle" if name == "read" else "query").strip().strip("[]")
        if name in ("sessions", COMPACT_TOOL_NAME) or split_handle(wanted) == (-1, -1):
            return ()
        try:
            return recall_media(self.store, self._key(session), wanted)
        except UnknownReference:
            return ()

    def recall(self, query: str, session: str = "") -> str:
        """Search a session, or read its parts by their handles."""
        return recall(self.store, self._key(session), query, budget_tokens=self.budget_tokens)

    def read(self, handle: str, session: str = "") -> str:
        """Read one part; raise `UnknownReference` if the handle is malformed or unknown."""
        wanted = handle.strip().strip("[]")
        if split_handle(wanted.partition("+")[0]) == (-1, -1):
            raise UnknownReference("part", handle, remedy="give a handle such as 42.1, or search with recall")
        return self.recall(wanted, session)

    def sessions(self) -> str:
        """List the tenant's sessions, a line each, the last changed first, and which one is the default."""
        lines = list(islice(map(_line, self.store.sessions(self._tenant())), MOST_SESSIONS))
        if not lines:
            raise _no_sessions()
        default = f"\n\nWhere no session is named, {self.session or 'the first of these'} is meant."
        return "\n".join(_fit_lines(lines, self.budget_tokens - estimate(default, "features"))) + default

    def _key(self, session: str) -> SessionKey:
        named = session or self.session
        if not named:
            newest = next(iter(self.store.sessions(self._tenant())), None)
            if newest is None:
                raise _no_sessions()
            return newest.key
        key = SessionKey(self._tenant(), SessionId(named))
        if next(self.store.newest_first(key), None) is None:
            raise UnknownSession(named)
        return key

    def _tenant(self) -> str:
        if self.tenant is not None:
            return self.tenant
        tenants = self.store.tenants()
        if "" in tenants or not tenants:
            return ""
        if len(tenants) > 1:
            raise UsageError(
                f"this store has sessions of {len(tenants)} tenants; start infold mcp with --tenant NAME, "
                "as listed by infold sessions --json"
            )
        return tenants[0]


def _text(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name, "")
    return value if isinstance(value, str) else "" if value is None else str(value)


def _line(session: StoredSession) -> str:
    size = f"{session.entries:,} entries, {max(1, session.stored_bytes // 1_000):,} kB"
    return f"{moment(session.changed_ms)} UTC, {size}: {session.key.session_id}"


def _fit_lines(lines: list[str], budget_tokens: int) -> Iterator[str]:
    """Yield the first lines that fit, at least one."""
    spent = 0
    for line in lines:
        spent += estimate(line, "features") + 1
        if spent > budget_tokens and line is not lines[0]:
            return
        yield line


def _no_sessions() -> UsageError:
    return UsageError(
        "there is no session in this store yet; begin one, or start infold mcp with another store or tenant"
    )
