"""`infold doctor` names what is wrong and its fix, and never a key."""

import json
import os
import socket
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infold.cli.doctor import USES
from infold.cli.main import main
from infold.testing.scripted_server import ScriptedServer

KEY = "sk-thisisasecretkey"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home and a project in it, with nothing set."""
    (tmp_path / ".git").mkdir()
    return tmp_path


def doctor(home: Path, *arguments: str, **environ: str) -> Result:
    """The verb's outcome in that folder, with these variables and no others that count."""
    unset = {name: None for name in os.environ if name.startswith("INFOLD_") or name.endswith("_API_KEY")}
    runner = CliRunner(env={**unset, "HOME": str(home), "XDG_CONFIG_HOME": None, "XDG_DATA_HOME": None, **environ})
    with chdir(home):
        return runner.invoke(main, ["doctor", *arguments])


def checks(home: Path, *arguments: str, **environ: str) -> dict[str, dict[str, Any]]:
    """What was found, by name."""
    page = json.loads(doctor(home, *arguments, "--json", **environ).stdout)
    return {check["name"]: check for check in page["checks"]}


def test_a_fresh_machine_has_nothing_broken(home: Path) -> None:
    """B46: what is only not installed or not set is no fault."""
    told = doctor(home)

    assert told.exit_code == 0, told.output
    assert "nothing is broken" in told.stdout
    assert "fix: infold init" in told.stdout


def test_every_fault_of_a_file_is_listed_with_its_fix(home: Path) -> None:
    """Unknown names, wrong values, secrets and keys that a project may not set, all at once."""
    (home / "infold.toml").write_text(
        "windw = 3\nstore = 'x.db'\n[compaction]\nattempts = 'many'\n[models.gpt]\napi_key = 'x'\n", "utf-8"
    )
    told = doctor(home, INFOLD_RECALL_BUDGET_TOKENS="lots", INFOLD_COMPACTION_TRIGER="1")

    assert told.exit_code == 1
    assert told.stdout.count("BROKEN settings") == 6
    assert "did you mean window?" in told.stdout
    assert "did you mean INFOLD_COMPACTION_TRIGGER?" in told.stdout
    assert "6 faults to mend" in told.stdout


def test_a_contradiction_is_listed_with_other_faults(home: Path) -> None:
    """Values that contradict each other are found although another name is unknown."""
    (home / "infold.toml").write_text("windw = 3\n[compaction]\ntrigger = 0.5\ntarget = 0.9\n", "utf-8")
    told = doctor(home)

    assert told.stdout.count("BROKEN settings") == 2
    assert "compaction.target" in told.stdout


def test_a_file_that_is_not_toml_is_one_fault(home: Path) -> None:
    """A file that cannot be parsed is named; nothing else fails because of it."""
    (home / "infold.toml").write_bytes(b"\xff\xfe[")

    assert doctor(home).exit_code == 1
    assert "the file is not UTF-8" in doctor(home).stdout


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_keys_are_never_printed(home: Path, form: tuple[str, ...]) -> None:
    """A key is set or not set, also in an address that holds one."""
    told = doctor(
        home,
        *form,
        "--timeout",
        "0.2",
        ANTHROPIC_API_KEY=KEY,
        INFOLD_TOKEN=KEY,
        INFOLD_UPSTREAMS_OPENAI_BASE_URL=f"http://me:{KEY}@127.0.0.1:9",
    )

    assert "ANTHROPIC_API_KEY is set" in told.stdout
    assert KEY not in told.output


def test_a_needed_key_is_missed(home: Path) -> None:
    """The key of the model that is set is needed, those of others are not."""
    found = checks(home, "--offline", INFOLD_MODEL="claude-sonnet-4-5")

    assert found["anthropic key"]["state"] == "broken"
    assert found["openai key"]["state"] == "missing"


def test_an_upstream_that_answers_is_reached(home: Path) -> None:
    """Any answer counts, whatever its status."""
    with ScriptedServer() as server:
        found = checks(home, INFOLD_UPSTREAMS_OPENAI_BASE_URL=server.url)

    assert found["upstream openai"]["state"] == "ok"


def test_a_silent_upstream_is_given_up_in_time(home: Path) -> None:
    """A server that takes the connection and says nothing is reported, and so is a closed port."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environ = {"INFOLD_UPSTREAMS_OPENAI_BASE_URL": url, "INFOLD_UPSTREAMS_ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        found = checks(home, "--timeout", "0.2", **environ)

    assert found["upstream openai"]["found"].endswith("cannot be reached: no answer within 0.2 s")
    assert "refused" in found["upstream anthropic"]["found"]
    assert found["upstream openai"]["state"] == "broken"


def test_a_store_is_opened_and_may_be_written(home: Path) -> None:
    """A store that exists is opened, one that does not is not created."""
    assert "does not exist yet" in checks(home, "--offline")["store"]["found"]
    assert not list(home.rglob("*.sqlite3"))

    (home / "sessions.txt").write_text("no store", "utf-8")
    broken = checks(home, "--offline", "--store", str(home / "sessions.txt"))["store"]

    assert broken["state"] == "broken"
    assert "it is not an infold store" in broken["found"]
    assert broken["fix"] == "name another file"


def test_a_store_without_a_folder_is_broken(home: Path) -> None:
    """A file stands where the folder of the store should be."""
    (home / "blocked").write_text("", "utf-8")
    broken = checks(home, "--offline", "--store", str(home / "blocked" / "x.sqlite3"))["store"]

    assert broken["state"] == "broken"
    assert "not a writable folder" in broken["found"]


def test_the_window_of_the_model_is_known_or_explained(home: Path) -> None:
    """A known window, one that is set, and one that has to be assumed."""
    assert "200,000 tokens" in checks(home, "--offline", "--model", "claude-sonnet-4-5")["claude-sonnet-4-5"]["found"]
    assert "as set" in checks(home, "--offline", "--model", "kite", INFOLD_WINDOW="9000")["kite"]["found"]
    assumed = checks(home, "--offline", "--model", "kite")["kite"]
    assert assumed["state"] == "note"
    assert "INFOLD_WINDOW" in assumed["fix"]


def test_extras_are_those_of_the_package(home: Path) -> None:
    """An installed extra is told with its use."""
    found = checks(home, "--offline")

    assert found["cli"]["found"] == f"installed ({USES['cli']})"
