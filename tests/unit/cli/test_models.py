"""`infold models` shows what the catalogue knows, and how a name was understood."""

import json

import pytest
from click.testing import CliRunner, Result

from infold.catalogue import shipped_table
from infold.cli.main import main
from infold.testing.scripted_server import ScriptedServer


def models(*arguments: str) -> Result:
    """The verb's outcome."""
    return CliRunner().invoke(main, ["models", *arguments])


def test_all_models_are_listed() -> None:
    """Every name of the catalogue stands in the list, none cut."""
    listed = models().stdout

    assert all(entry.name in listed for entry in shipped_table().models)
    assert f"{len(shipped_table().models):,} models" in listed


def test_a_search_narrows_the_list() -> None:
    """Part of a name, a provider or a family is enough, in any case."""
    rows = models("--search", "GEMINI-2.5").stdout.splitlines()[1:-1]

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
    """The assumption, what was tried, what to do, and names that come near."""
    page = models("opus").stdout

    assert "a window of 32,768 tokens is assumed" in page
    assert "--window TOKENS" in page
    assert "claude-opus-4" in page


@pytest.mark.parametrize("name", ["gpt-4o", "nonesuch"])
def test_json_has_stable_keys(name: str) -> None:
    """Known or not, the same keys."""
    page = json.loads(models(name, "--json").stdout)

    assert set(page) == {"asked", "known", "matched", "how", "reason", "advice", "model"}
    assert page["known"] is (name == "gpt-4o")
    assert page["model"]["context_tokens"] > 0


def test_the_list_as_json() -> None:
    """Every model with every field."""
    page = json.loads(models("--search", "gpt-4o", "--json").stdout)

    assert {"name", "context_tokens", "prices", "family"} <= set(page["models"][0])


def test_name_and_search_exclude_each_other() -> None:
    """Both at once is bad usage."""
    assert models("gpt-4o", "--search", "gpt").exit_code == 2


def test_nothing_found_is_told() -> None:
    """A text that no name holds."""
    told = models("--search", "zebra")

    assert (told.exit_code, told.stdout) == (0, "")
    assert "try a shorter one" in told.stderr


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
