"""`infold serve` before it serves: what it is asked, and what it refuses in one line."""

import socket
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main

UPSTREAM = ("--upstream", "openai=http://x.test")


def serve(folder: Path, *arguments: str, **variables: str) -> Result:
    """The verb's outcome, without settings of the person who runs the tests."""
    unset = dict.fromkeys(
        ("INFOLD_TOKEN", "INFOLD_PAGE_TOKEN", "INFOLD_SECRET", "INFOLD_STORE", "INFOLD_WINDOW", "INFOLD_CONFIG")
    )
    runner = CliRunner(env={**unset, "XDG_CONFIG_HOME": str(folder), **variables})
    with chdir(folder):
        return runner.invoke(main, ["serve", "--port", "0", *arguments])


@pytest.mark.parametrize(
    ("arguments", "variables", "told"),
    [
        (("--upstream", "openai=ftp://x"), {}, "not an upstream address"),
        (("--upstream", "openai=http://"), {}, "not an upstream address"),
        (
            ("--upstream", "openai"),
            {},
            "not an upstream: 'openai'; write PROVIDER=URL, where the provider is one of anthropic,",
        ),
        (("--store", "mysql://h/d", *UPSTREAM), {}, "infold has no store for addresses that begin with mysql://"),
        (("--upstream", "mistral=http://x.test"), {}, "unknown provider"),
        (("--store", "postgresql://h/d", *UPSTREAM), {}, "INFOLD_SECRET, the same for all replicas"),
        (("--store", "/dev/null/x.db", *UPSTREAM), {}, "no secret can be kept"),
        (("--store", "/dev/null/x.db", *UPSTREAM), {"INFOLD_SECRET": "s"}, "/dev/null"),
        (("--host", "0.0.0.0", *UPSTREAM), {}, "set INFOLD_TOKEN"),
        (("--host", "192.0.2.1", *UPSTREAM), {"INFOLD_TOKEN": "0123456789abcdef"}, "cannot listen on 192.0.2.1"),
        (UPSTREAM, {"INFOLD_TOKEN": "with space"}, "letters, digits"),
        (UPSTREAM, {"INFOLD_PAGE_TOKEN": "with space"}, "INFOLD_PAGE_TOKEN may hold letters, digits"),
        (UPSTREAM, {"INFOLD_WINDOW": "many"}, "INFOLD_WINDOW"),
        ((), {"INFOLD_UPSTREAMS_MISTRAL_BASE_URL": "http://x.test"}, "unknown provider"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], told: str
) -> None:
    """Nothing starts, nothing is printed, and the one line says what to do."""
    outcome = serve(tmp_path, *arguments, **variables)

    assert (outcome.exit_code, outcome.stdout, outcome.stderr.count("\n")) == (1, "", 1)
    assert told in outcome.stderr


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    """Somebody else listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        outcome = serve(tmp_path, *UPSTREAM, "--port", port)

    assert (outcome.exit_code, outcome.stderr.count("\n")) == (1, 1)
    assert f"cannot listen on 127.0.0.1:{port}" in outcome.stderr


@pytest.mark.slow
def test_a_password_is_not_shown(tmp_path: Path) -> None:
    """A store that cannot be reached is told without the password in its address."""
    place = "postgresql://ada:hidden-word@127.0.0.1:9/x?connect_timeout=1"
    outcome = serve(tmp_path, "--store", place, *UPSTREAM, INFOLD_SECRET="shared")

    assert outcome.exit_code == 1
    assert "hidden-word" not in outcome.output


def test_the_help_teaches(tmp_path: Path) -> None:
    """It has an example, and says what happens without an upstream and without loopback."""
    told = " ".join(serve(tmp_path, "--help").stdout.split())

    assert "infold serve --upstream openai=https://api.openai.com" in told
    assert "embedded model" in told
    assert "INFOLD_TOKEN" in told


@pytest.mark.parametrize(("window", "told"), [("32k", "not an upstream"), ("many", "not a number of tokens")])
def test_the_window_is_written_as_elsewhere(tmp_path: Path, window: str, told: str) -> None:
    """Thousands and millions may be written with k and m, as for every other verb."""
    assert told in serve(tmp_path, "--window", window, "--upstream", "openai").stderr
