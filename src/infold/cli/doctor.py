"""`infold doctor`: check what infold needs on this machine, and say how to mend what is wrong.

Keys are only ever reported as set or not set. The network is used for the configured upstreams, and for the providers
whose keys are set, each within a time limit; the key is not sent.
"""

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from importlib import metadata
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Literal, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

import click
from msgspec import Struct
from msgspec.structs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from infold.catalogue import Assumed, Known, lookup
from infold.cli import options
from infold.cli.render import open_console, print_json, working
from infold.cli.session_lookup import store_location
from infold.errors import InfoldError, SettingsError, without_secrets
from infold.reports.text import plural, printable
from infold.settings import Settings, format_value, read_settings
from infold.settings.load import user_file
from infold.settings.schema import store_path
from infold.wiring import embedded_remedy, located, open_store

OLDEST_PYTHON = (3, 11)
TIMEOUT_SECONDS = 3.0
BUSY_SECONDS = 3.0
SETTINGS_FIRST = "correct the settings first"
FOREVER_MS = 1 << 60
"""An age that no session has: deleting what is older deletes nothing, and shows whether the store can be written."""

PROVIDERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "anthropic": (("ANTHROPIC_API_KEY",), "https://api.anthropic.com"),
    "google": (("GEMINI_API_KEY", "GOOGLE_API_KEY"), "https://generativelanguage.googleapis.com"),
    "openai": (("OPENAI_API_KEY",), "https://api.openai.com"),
}
"""By provider: the variables that may hold its key, and its address."""

USES: Mapping[str, str] = {
    "agent": "infold run and chat",
    "anthropic": "Claude, wrap(Anthropic())",
    "bedrock": "wrap for boto3",
    "cli": "this command",
    "gateway": "infold serve",
    "google": "Gemini, wrap for google-genai",
    "mcp": "infold mcp",
    "openai": "OpenAI, wrap(OpenAI())",
    "otel": "traces",
    "postgres": "PostgreSQL stores",
    "tokens": "exact token counts",
}
"""What an extra is for; of those that are not named here, plugs for frameworks among them, only the installed are listed."""

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<nested>[\w,.-]+)\])?(?P<version>[^;]*)(?:;(?P<marker>.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_AT_LEAST = re.compile(r">=\s*([\d.]+)")

State: TypeAlias = Literal["ok", "note", "missing", "broken"]
"""How a check ended: `note` may matter to you, `missing` is optional, and only `broken` is an error."""

MARKS: Mapping[State, tuple[str, str, str]] = {
    "ok": ("✓", "ok", "green"),
    "note": ("!", "note", "yellow"),
    "missing": ("·", "-", "dim"),
    "broken": ("✗", "BROKEN", "bold red"),
}
"""The mark of a state in a terminal and elsewhere, and its style."""


class Check(Struct, frozen=True):
    """One thing that was checked: what was found, and what to do about it if anything is to be done."""

    group: str
    name: str
    state: State
    found: str
    fix: str = ""


@click.command("doctor")
@options.model
@click.option("--store", metavar="PLACE", help="The store to check; the one of your settings by default.")
@click.option("--offline", is_flag=True, help="Do not use the network.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 60),
    default=TIMEOUT_SECONDS,
    show_default=True,
    help="Seconds that a server may take to answer.",
)
@options.as_json
def doctor(model: str | None, store: str | None, timeout: float, *, offline: bool, as_json: bool) -> None:
    """Check Python, extras, settings, store, keys, upstreams and the model's window; each finding comes with its fix.

    Keys are reported as set or not set and never printed. Settings are those of this folder, and every fault of a file is
    listed. The exit status is 1 if something that is configured does not work, and 0 if something is only not installed.

    \b
    Examples:
      infold doctor
      infold doctor --model claude-sonnet-5-5 --json
    """
    settings, faults = _read_settings()
    with working("checking"):
        checks = [
            _check_python(),
            *_check_extras(),
            *_check_settings(settings, faults),
            _check_store(store),
            *_check_keys(settings, model),
            *_check_network(settings, None if offline else timeout),
            _check_window(settings, model),
        ]
    is_ok = all(check.state != "broken" for check in checks)
    if as_json:
        print_json({"ok": is_ok, "checks": [asdict(check) for check in checks]})
    else:
        _show(open_console(), checks)
    raise click.exceptions.Exit(0 if is_ok else 1)


def _read_settings() -> tuple[Settings | None, tuple[SettingsError, ...]]:
    try:
        return read_settings(os.environ, Path.cwd()), ()
    except SettingsError as error:
        return None, (error, *error.others)


# Python and packages.


def _check_python() -> Check:
    found = (
        f"Python {platform.python_version()} on {platform.system()}, infold {_version('infold') or 'from its source'}"
    )
    is_old = sys.version_info[:2] < OLDEST_PYTHON
    fix = f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer" if is_old else ""
    return Check("python", "python", "broken" if is_old else "ok", found, fix)


def _check_extras() -> Iterator[Check]:
    """Yield a check for each extra that has a use here or is installed, from the metadata of the package."""
    requirements = _requirements()
    if not requirements:
        yield Check("extras", "extras", "note", "infold is not installed as a package", "pip install infold")
    for extra in sorted(requirements.keys() - {"dev"}):
        lacking = sorted(_lacking(extra, requirements))
        line = f"pip install 'infold[{extra}]'"
        use = f" ({USES[extra]})" if extra in USES else ""
        if not lacking:
            yield Check("extras", extra, "ok", f"installed{use}")
        elif extra in USES:
            yield Check("extras", extra, "missing", f"not installed{use}: {', '.join(lacking)}", line)
    line, use = embedded_remedy(), "(infold serve and run without a key)"
    state: State = "missing" if line else "ok"
    yield Check("extras", "embedded model", state, f"{'not installed' if line else 'installed'} {use}", line)


def _requirements() -> Mapping[str, list[re.Match[str]]]:
    """Return what each extra of infold requires, as its metadata states it; empty if infold is not installed."""
    try:
        stated = metadata.requires("infold") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, list[re.Match[str]]] = {}
    for requirement in filter(None, map(_REQUIREMENT.match, stated)):
        extra = _EXTRA.search(requirement["marker"] or "")
        if extra:
            found.setdefault(extra[1], []).append(requirement)
    return found


def _lacking(extra: str, requirements: Mapping[str, list[re.Match[str]]]) -> Iterator[str]:
    """Yield the packages of an extra that are not installed or too old."""
    for requirement in requirements.get(extra, []):
        if requirement["name"] == "infold":
            for nested in (requirement["nested"] or "").split(","):
                yield from _lacking(nested.strip(), requirements)
            continue
        installed, least = _version(requirement["name"]), _AT_LEAST.search(requirement["version"])
        if installed is None:
            yield requirement["name"]
        elif least and _numbers(installed) < _numbers(least[1]):
            yield f"{requirement['name']} {installed} is older than {least[1]}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


# Settings and store.


def _check_settings(settings: Settings | None, faults: tuple[SettingsError, ...]) -> Iterator[Check]:
    for fault in faults:
        name = f"{fault.key} ({fault.where})" if fault.key else fault.where
        yield Check("settings", "settings", "broken", f"{name}: {fault.problem}", fault.remedy)
    if settings is not None and settings.files:
        yield Check("settings", "settings", "ok", f"read: {', '.join(settings.files)}")
    elif settings is not None:
        own = user_file(os.environ)
        places = f"no infold.toml in this folder or above{f', nor {own}' if own else ''}"
        yield Check("settings", "settings", "missing", f"defaults hold: {places}", "infold init")


def _check_store(named: str | None) -> Check:
    """Open the store and write nothing to it, in a way that fails if it cannot be written."""
    try:
        place = store_location(named)
    except SettingsError:
        return Check("store", "store", "note", "not checked: the settings are wrong", SETTINGS_FIRST)
    shown = format_value(place)
    if place == "memory":
        return Check("store", "store", "ok", "in memory: sessions end with their process")
    try:
        where = located(place)
        if "://" not in where and not Path(where).exists():
            return _check_folder(store_path(where))
        with open_store(where, busy_seconds=BUSY_SECONDS) as store:
            sessions = sum(1 for tenant in store.tenants() for _ in store.sessions(tenant))
            store.expire(FOREVER_MS)
    except InfoldError as error:
        problem, _, fix = str(error).partition("; ")
        return Check("store", "store", "broken", without_secrets(problem), without_secrets(fix))
    found = f"{shown}: opens, can be written, its schema is up to date; {plural(sessions, 'session')}"
    return Check("store", "store", "ok", found)


def _check_folder(path: Path) -> Check:
    """Check that a store that does not exist yet can be created."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return Check("store", "store", "ok", f"{path}: does not exist yet, and will be created by the first session")
    fix = "make the folder writable, or name another file with the setting store"
    return Check("store", "store", "broken", f"{path}: cannot be created, {folder} is not a writable folder", fix)


# Keys, network and model.


def _check_keys(settings: Settings | None, model: str | None) -> Iterator[Check]:
    """Yield which keys are set; one is needed if the model that is set, or writes summaries, is of its provider."""
    needed = _needed_providers(settings, model)
    for provider, (variables, _) in PROVIDERS.items():
        held = [name for name in variables if os.environ.get(name, "").strip()]
        if held:
            yield Check("keys", f"{provider} key", "ok", f"{held[0]} is set")
        elif provider in needed:
            found = f"{variables[0]} is not set, and {needed[provider]} needs it"
            yield Check("keys", f"{provider} key", "broken", found, f"export {variables[0]}=…")
        else:
            found = f"{variables[0]} is not set"
            yield Check("keys", f"{provider} key", "missing", found, f"export {variables[0]}=…")
    host = settings.gateway.host if settings is not None else "127.0.0.1"
    if os.environ.get("INFOLD_TOKEN"):
        yield Check("keys", "gateway token", "ok", "INFOLD_TOKEN is set")
        if not os.environ.get("INFOLD_PAGE_TOKEN"):
            found = "INFOLD_PAGE_TOKEN is not set, so the gateway's page is closed"
            yield Check("keys", "page token", "missing", found, "export INFOLD_PAGE_TOKEN=… (for the operator alone)")
    elif host not in ("127.0.0.1", "::1", "localhost"):
        found = f"INFOLD_TOKEN is not set, and the gateway listens on {host}"
        fix = "export INFOLD_TOKEN=… (a random text of 16 characters or more)"
        yield Check("keys", "gateway token", "broken", found, fix)


def _needed_providers(settings: Settings | None, model: str | None) -> Mapping[str, str]:
    """Return the providers whose keys the settings need, each with the model that needs it."""
    summariser = None if settings is None else settings.for_session(model=model).summariser
    names = filter(None, (model, None if settings is None else settings.model, summariser))
    needed: dict[str, str] = {}
    for name in names:
        known = lookup(name)
        provider = name.partition("/")[0] if "/" in name else known.entry.provider
        needed.setdefault(provider, name)
    return needed


def _check_network(settings: Settings | None, timeout: float | None) -> Iterator[Check]:
    """Yield whether upstreams and providers with a key answer; all are asked at the same time."""
    if timeout is None:
        yield Check("network", "network", "missing", "not checked, because of --offline")
        return
    if settings is None:
        yield Check("network", "upstreams", "note", "not checked: the settings are wrong", SETTINGS_FIRST)
    upstreams = {} if settings is None else dict(settings.upstreams)
    providers = {
        provider: address
        for provider, (variables, address) in PROVIDERS.items()
        if any(os.environ.get(name, "").strip() for name in variables)
    }
    asked = [_Inquiry(url, timeout, has_proxies=False) for url in upstreams.values()]
    further = [_Inquiry(url, timeout, has_proxies=True) for url in providers.values()]
    until = monotonic() + timeout
    for name, inquiry in zip(upstreams, asked, strict=True):
        fix = f"check the network and the address (upstreams.{name}.base_url)"
        yield _reached(f"upstream {name}", inquiry.url, inquiry.problem(until), "broken", fix)
    for name, inquiry in zip(providers, further, strict=True):
        fix = "check the network and its proxy"
        yield _reached(f"{name} API", inquiry.url, inquiry.problem(until), "note", fix)
    if settings is not None and not upstreams:
        found = "no upstream is set: infold serve answers with the embedded model"
        yield Check("network", "upstreams", "missing", found, "infold serve --upstream openai=https://api.openai.com")


def _reached(name: str, url: str, problem: str, state: State, fix: str) -> Check:
    shown = without_secrets(url)
    if problem:
        return Check("network", name, state, f"{shown} cannot be reached: {problem}", fix)
    return Check("network", name, "ok", f"{shown} answers")


class _Inquiry:
    """Ask a server for its address in a thread of its own: looking up a name knows no time limit.

    The gateway uses no proxies of the environment, the SDKs of providers do.
    """

    def __init__(self, url: str, timeout: float, *, has_proxies: bool) -> None:
        self.url = url
        self._timeout = timeout
        self._opener = build_opener() if has_proxies else build_opener(ProxyHandler({}))
        self._problem = f"no answer within {timeout:g} s"
        self._thread = Thread(target=self._ask, daemon=True)
        self._thread.start()

    def problem(self, until: float) -> str:
        """Wait until that time, and return why the server does not answer; empty if it does, whatever its status."""
        self._thread.join(max(0.0, until - monotonic()))
        return self._problem

    def _ask(self) -> None:
        try:
            self._opener.open(self.url, timeout=self._timeout).close()
            self._problem = ""
        except HTTPError as error:
            error.close()
            self._problem = ""
        except TimeoutError:
            return
        except URLError as error:
            if not isinstance(error.reason, TimeoutError):
                self._problem = without_secrets(str(error.reason))
        except (HTTPException, OSError, ValueError) as error:
            self._problem = without_secrets(str(error)) or type(error).__name__


def _check_window(settings: Settings | None, named: str | None) -> Check:
    model = named or (settings.model if settings is not None else None)
    window = None if settings is None else settings.for_session(model=model).window_tokens
    if window:
        return Check("model", model or "window", "ok", f"a window of {window:,} tokens, as set")
    if model is None and settings is None:
        return Check("model", "window", "note", "not checked: the settings are wrong", SETTINGS_FIRST)
    if model is None:
        found = "no model is set: the window of the model that a request names is used"
        return Check("model", "window", "missing", found, "infold models NAME shows what is known of one")
    known = lookup(model)
    if isinstance(known, Assumed):
        fix = f"set window in infold.toml, or by INFOLD_WINDOW; 'infold models {model}' lists similar names"
        return Check("model", model, "note", known.reason, fix)
    assert isinstance(known, Known)
    priced = "prices known" if known.entry.prices is not None else "prices not known"
    return Check("model", model, "ok", f"{known.matched}: a window of {known.entry.context_tokens:,} tokens, {priced}")


# Showing.


def _show(console: Console, checks: list[Check]) -> None:
    plain = not console.is_terminal
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for check in checks:
        drawn, word, style = MARKS[check.state]
        found = Text(printable(check.found))
        if check.fix:
            found.append(f"\n→ {printable(check.fix)}" if not plain else f"\nfix: {printable(check.fix)}", style="cyan")
        table.add_row(Text(word if plain else drawn, style=style), printable(check.name), found)
    console.print(table)
    broken = sum(check.state == "broken" for check in checks)
    words = f"{plural(broken, 'fault')} to mend" if broken else "nothing is broken"
    console.print(Text(f"\n{words}", style="bold red" if broken else "bold green"))
