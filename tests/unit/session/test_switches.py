"""The off switches of the environment, seen by a program that calls infold."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from infold import AsyncSession, Session, SessionSettings, Window, WindowExceeded, fit, open_store, preset
from infold.core.events import Compacted, Event, Pruned
from infold.errors import SettingsError

DOCUMENTS = ["opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive", "turn-window"]
WINDOW = Window(16_000, output_tokens=2_000)
LONG: list[dict[str, Any]] = [
    item
    for n in range(8)
    for item in ({"role": "user", "content": f"{n} " * 9_000}, {"role": "assistant", "content": "ok " * 3_000})
] + [{"role": "user", "content": "y"}]
OFF = {"INFOLD_DISABLE_AUTOCOMPACT": "1", "INFOLD_DISABLE_PRUNE": "1"}
REFUSAL = {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8000 tokens"}}
SHOW = (
    "from infold import fit; long = [{'role': 'user', 'content': 'x ' * 60_000}, "
    "{'role': 'assistant', 'content': 'ok ' * 20_000}, {'role': 'user', 'content': 'y'}]; "
    "print(fit(long, window=100_000, policy='opencode-1.1.23').report.changed)"
)


def read_pages(turns: int) -> list[dict[str, Any]]:
    """Turns with a result of 10,000 tokens each."""
    items: list[dict[str, Any]] = []
    for n in range(turns):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        items += [
            {"role": "user", "content": f"page {n}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "word" * 10_000},
            {"role": "assistant", "content": "read"},
        ]
    return items


@pytest.mark.parametrize("name", ["infold", *DOCUMENTS])
def test_fit_does_nothing_that_is_switched_off(name: str) -> None:
    """S8.2, S1.1: the switches win over the policy that a caller passes; a request over the window comes back as it is."""
    fitted = fit(LONG, window=WINDOW, policy=name, environ=OFF)

    assert fit(LONG, window=WINDOW, policy=name, environ={}).report.changed
    assert all(back is given for back, given in zip(fitted.messages, LONG, strict=True))
    assert not fitted.report.changed
    assert not fit(LONG, window=WINDOW, policy=replace(preset(name), auto=True), environ=OFF).report.changed


def test_pruning_has_a_switch_of_its_own() -> None:
    """S8.2, S2.9: a document's preset goes on pruning where only compacting is off, and the other way round."""

    def changes(**environ: str) -> bool:
        return fit(read_pages(12), window=2_000_000, policy="proactive", environ=environ).report.changed

    assert changes()
    assert changes(INFOLD_DISABLE_AUTOCOMPACT="1")
    assert not changes(INFOLD_DISABLE_PRUNE="1")
    assert not changes(OPENCODE_DISABLE_PRUNE="1")


@pytest.mark.parametrize("name", ["infold", *DOCUMENTS])
def test_a_session_does_nothing_that_is_switched_off(name: str) -> None:
    """S8.2, B20: a session acts on nothing by itself, reported usage included; a person's own wish is met all the same."""
    events: list[Event] = []
    settings = SessionSettings(window=WINDOW, policy=name, on_event=events.append, environ=OFF)
    session = Session(open_store("memory"), "s", settings)
    ready = session.prepare(LONG)

    assert (ready.messages, events) == (LONG, [])
    assert (session.policy.auto, session.policy.prune.enabled) == (False, False)
    session.compact()
    assert [event for event in events if isinstance(event, Compacted)]


def test_a_refusal_is_not_recovered_where_compacting_is_off() -> None:
    """S1.1, B9: off is off for a refused request too; the caller is told with `WindowExceeded`."""
    session = Session(open_store("memory"), "s", SessionSettings(window=WINDOW, environ=OFF))
    session.prepare(LONG)

    with pytest.raises(WindowExceeded):
        session.recover(REFUSAL)


def test_async_sessions_obey_them_too() -> None:
    """S8.2: the switches are read when an async session is opened."""

    async def policy_is_off() -> bool:
        session = await AsyncSession.open(open_store("memory"), "s", SessionSettings(window=WINDOW, environ=OFF))
        ready = await session.prepare(LONG)
        return not session.policy.auto and ready.messages == LONG

    assert asyncio.run(policy_is_off())


def test_a_wrong_word_is_an_error() -> None:
    """S8.2: a switch that says neither yes nor no is named, whichever way infold is called."""
    wrong = {"INFOLD_DISABLE_PRUNE": "perhaps"}
    with pytest.raises(SettingsError, match="INFOLD_DISABLE_PRUNE: 'perhaps' is neither yes nor no"):
        fit(LONG, window=WINDOW, environ=wrong)
    with pytest.raises(SettingsError, match="INFOLD_DISABLE_PRUNE"):
        Session(open_store("memory"), "s", SessionSettings(window=WINDOW, environ=wrong))


def test_pruned_is_told_where_only_compacting_is_off() -> None:
    """B22, S8.2: what is still done is told."""
    events: list[Event] = []
    environ = {"OPENCODE_DISABLE_AUTOCOMPACT": "1"}
    settings = SessionSettings(window=2_000_000, policy="proactive", on_event=events.append, environ=environ)
    Session(open_store("memory"), "s", settings).prepare(read_pages(12))

    assert {type(event) for event in events} == {Pruned}


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["", "INFOLD_DISABLE_AUTOCOMPACT", "OPENCODE_DISABLE_AUTOCOMPACT"])
def test_the_environment_of_the_process_is_read(variable: str) -> None:
    """S8.2: a program that names no environment is run under that of its process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("INFOLD_", "OPENCODE_"))}
    environ = {**kept, **({variable: "1"} if variable else {})}
    ran = subprocess.run([sys.executable, "-c", SHOW], env=environ, capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == str(not variable)
