"""`infold models` shows what the catalogue knows, and how a name was understood."""

import json

import pytest
from click.testing import CliRunner, Result

from infold.catalogue import shipped_table
from infold.cli.main import main
from infold.cli.models import _lines
from infold.testing.scripted_server import ScriptedServer


def models(*arguments: str) -> Result:
    """The verb's outcome."""
    return CliRunner().invoke(main, ["models", *arguments])


def test_all_models_are_listed() -> None:
    """Every name of the catalogue stands in the list, none cut."""
    listed = models().stdout

    assert all(entry.name in listed for entry in shipped_table().models)
    assert f"{len(shipped_table().models):,} models" in listed


def test_a_pattern_narrows_the_list() -> None:
    """Part of a name, a provider or a family is enough, in any case."""
    rows = models("GEMINI-2.5").stdout.splitlines()[1:-1]

    assert rows
    assert all("gemini-2.5" in row for row in rows)


def test_a_model_is_told_with_how_it_matched() -> None:
    """Limits, prices, family and the liberties that were taken."""
    page = models("anthropic/claude-sonnet-4-5@20250929").stdout

    assert "matched by: prefix removed" in page
    assert "window: 200,000 tokens" in page
    assert "in 3, out 15, cache read 0.3, cache write 3.75" in page


def test_dearer_tiers_are_told() -> None:
    """A model that costs more for long requests says from where."""
    assert "above 200,000 tokens: in 2.5" in models("gemini-2.5-pro").stdout


def test_an_unknown_model_is_explained() -> None:
    """The assumption, what was tried, what to do, the nearest names, and status 1."""
    told = models("cluade-opus-4")

    assert told.exit_code == 1
    assert "a window of 32,768 tokens is assumed" in told.stdout
    assert "--window TOKENS" in told.stdout
    assert "nearest names: claude-opus-4" in told.stderr


def test_the_list_can_be_filtered() -> None:
    """By provider, by window and by wildcards, together."""
    rows = models("claude-*", "--provider", "anthropic", "--min-window", "1m").stdout.splitlines()[1:-1]

    assert any(row.startswith("claude-sonnet-5") for row in rows)
    assert all(row.split()[1] == "anthropic" and "M" in row.split()[2] for row in rows)


def test_an_unknown_provider_is_bad_usage() -> None:
    """The nearest one is suggested."""
    told = models("--provider", "antropic")

    assert told.exit_code == 2
    assert "did you mean 'anthropic'?" in told.stderr


def test_the_main_providers_stand_first() -> None:
    """The list begins with models that most people look for."""
    assert models().stdout.splitlines()[1].startswith("claude")


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_a_narrow_terminal_leaves_columns_out(width: int) -> None:
    """No line is wider than the terminal, and window and prices stay whole."""
    entries = [entry for entry in shipped_table().models if "claude-opus" in entry.name]
    lines = list(_lines(entries, width))

    assert all(len(line) <= width for line in lines)
    assert "$ in" in lines[0]
    assert all("…" not in line.partition(" ")[2] for line in lines)


@pytest.mark.parametrize("name", ["gpt-4o", "nonesuch"])
def test_json_has_stable_keys(name: str) -> None:
    """Known or not, the same keys."""
    page = json.loads(models(name, "--json").stdout)

    assert set(page) - {"nearest"} == {"asked", "known", "matched", "how", "reason", "advice", "model"}
    assert page["known"] is (name == "gpt-4o")
    assert page["model"]["context_tokens"] > 0


def test_the_list_as_json() -> None:
    """Every model with every field."""
    page = json.loads(models("gpt-4o*", "--json").stdout)

    assert {"name", "context_tokens", "prices", "family"} <= set(page["models"][0])


def test_nothing_found_is_told() -> None:
    """A text that no name holds."""
    told = models("zebra", "--min-window", "1m")

    assert (told.exit_code, told.stdout) == (1, "")
    assert "leave out a filter" in told.stderr


def test_a_server_is_asked_for_its_window() -> None:
    """B11: with an address, the window that is served is shown, and where it was reported; else what the catalogue has."""
    with ScriptedServer(served_tokens=12_288) as server:
        shown = models("my-model", "--base-url", f"{server.url}/v1").stdout
        told = json.loads(models("my-model", "--base-url", f"{server.url}/v1", "--json").stdout)
    with ScriptedServer() as server:
        unknown = models("my-model", "--base-url", f"{server.url}/v1").stdout

    assert "a window of 12,288 tokens, as http://127.0.0.1" in shown
    assert told["served"]["window_tokens"] == 12_288
    assert "reports no window for my-model" in unknown
    assert "32,768 tokens is assumed" in unknown
    assert models("--base-url", "http://localhost/v1").exit_code == 2
