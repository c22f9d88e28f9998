"""All cases in groups that are computed together, and the committed digests they are compared with."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from . import faces, library, texts
from .inputs import HERE, History, history, invented
from .internals import recorded_sessions
from .wires import WIRES

DIGESTS = HERE / "digests"
TRANSCRIPTS = HERE.parent / "data" / "transcripts"
CORPUS = Path(os.environ.get("INFOLD_CORPUS") or HERE.parents[2] / "shared" / "corpus")
MOST_SESSIONS = 10
"""tau and tau2 hold hundreds of dialogues of one kind; the longest are enough."""
DUMP = "INFOLD_GOLDEN_DUMP"

Cases: TypeAlias = dict[str, bytes]
Group: TypeAlias = Callable[[Path], Cases]
"""Compute the cases of a group; the folder is empty and its own."""


def invented_groups() -> dict[str, Group]:
    """Return the groups that every clone can compute."""
    groups: dict[str, Group] = {}
    for name in invented():
        groups[f"fit/{name}"] = partial(_fit, name)
        groups[f"session/{name}"] = partial(_session, name)
    for path in sorted(TRANSCRIPTS.iterdir()):
        groups[f"texts/{path.name}"] = partial(texts.convert_cases, path)
    for wire in WIRES:
        groups[f"stored/{wire}"] = partial(_stored, wire)
        groups[f"gateway/{wire}"] = partial(_gateway, wire)
        if wire != "gemini":
            groups[f"wrap/{wire}"] = partial(_wrap, wire)
    groups["gateway/agents"] = faces.agents_cases
    groups["agent/start"] = texts.agent_cases
    return groups


def corpus_groups() -> dict[str, Group]:
    """Return the groups of the corpus, where it is at hand."""
    manifest = CORPUS / "MANIFEST.json"
    entries: list[dict[str, Any]] = json.loads(manifest.read_text("utf-8")) if manifest.is_file() else []
    groups: dict[str, Group] = {}
    for number, entry in enumerate(entries):
        name = entry["file"]
        groups[f"corpus-fit/{name}"] = partial(_corpus_fit, entry)
        groups[f"corpus-session/{name}"] = partial(_corpus_session, entry, number)
        groups[f"corpus-texts/{name}"] = partial(texts.convert_cases, CORPUS / name)
    return groups


def _fit(name: str, _: Path) -> Cases:
    return library.fit_cases(invented()[name], together=name not in library.FULL)


def _session(name: str, _: Path) -> Cases:
    return library.sessions_cases(invented()[name], together=name not in library.FULL)


def _stored(wire: str, folder: Path) -> Cases:
    found: Cases = {}
    for name in ("trajectory", "native"):
        place = folder / name
        place.mkdir()
        found |= {f"{name}/{case}": content for case, content in texts.stored_cases(history(name, wire), place).items()}
    return found


def _gateway(wire: str, folder: Path) -> Cases:
    streamed = {"trajectory": False, "native": True, "coding": True}
    return faces.gateway_cases([(history(name, wire), stream) for name, stream in streamed.items()], folder)


def _wrap(wire: str, _: Path) -> Cases:
    streamed = {"trajectory": False, "native": True, "coding": True}
    return {
        name: content
        for one, stream in streamed.items()
        for name, content in faces.wrap_cases(history(one, wire), stream=stream).items()
    }


def _corpus_fit(entry: dict[str, Any], _: Path) -> Cases:
    return {
        f"{number}/{case}": content
        for number, histories in enumerate(_corpus_histories(entry))
        for case, content in library.fit_cases(histories, together=True).items()
    }


def _corpus_session(entry: dict[str, Any], number: int, _: Path) -> Cases:
    """Live through the longest session of a file; each way to keep it is used in one format, which differs by file."""
    histories = next(iter(_corpus_histories(entry)), ())
    found: Cases = {}
    for at, one in enumerate(histories):
        ways = tuple(library.variants(WIRES[one.format]))
        names = tuple(way for place, way in enumerate(ways) if place % len(histories) == (at + number) % len(histories))
        found |= library.sessions_cases([one], together=True, names=names)
    return found


def _corpus_histories(entry: dict[str, Any]) -> Iterable[tuple[History, ...]]:
    most = MOST_SESSIONS if entry["fmt"].startswith("tau") else None
    for session in recorded_sessions(CORPUS / entry["file"], most=most):
        yield tuple(
            History(entry["file"], wire, items, session.system, session.tools)
            for wire, items in sorted(session.items.items())
        )


def computed_lines(group: str, cases: Mapping[str, bytes]) -> dict[str, str]:
    """Return the line of each case by its name; write the bytes themselves where a folder for them is named."""
    dump = os.environ.get(DUMP)
    lines: dict[str, str] = {}
    for case, content in cases.items():
        name = f"{group}/{case}"
        lines[name] = f"{sha256(content).hexdigest()} {len(content)} {name}"
        if dump:
            path = Path(dump, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return lines


def committed_lines(group: str) -> dict[str, str]:
    """Return the committed lines of a group by their names."""
    lines = digest_file(group).read_text("utf-8").splitlines() if digest_file(group).is_file() else []
    named = {line.split(" ", 2)[2]: line for line in lines}
    return {name: line for name, line in named.items() if name.startswith(f"{group}/")}


def digest_file(group: str) -> Path:
    """Return the file that holds a group's digests."""
    return DIGESTS / f"{group.partition('/')[0]}.txt"
