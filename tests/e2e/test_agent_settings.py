"""`infold run` under a preset of the command line: what settings and switches say still holds."""

from pathlib import Path

import pytest

from infold.core.messages import Usage
from infold.testing.script import Say
from infold.testing.scripted_server import ScriptedServer

from .agent_stage import Director, base_of, events_in, infold, place_in

pytestmark = pytest.mark.slow

FULL = Say("Page one is read.", usage=Usage(input=95_000, output=100))
"""A reply whose reported usage is over every document's trigger at a window of 100,000 tokens."""


@pytest.mark.parametrize(
    ("policy", "variables", "toml", "compactions"),
    [
        ("opencode-1.1.23", {}, "", 1),
        ("proactive", {}, "", 1),
        ("opencode-1.1.23", {"INFOLD_DISABLE_AUTOCOMPACT": "1"}, "", 0),
        ("proactive", {"OPENCODE_DISABLE_AUTOCOMPACT": "1"}, "", 0),
        ("opencode-1.1.23", {}, "[compaction]\nauto = false\n", 0),
    ],
    ids=["opencode", "proactive", "switch", "opencode-switch", "file"],
)
def test_a_named_preset_compacts_only_where_nothing_is_off(
    tmp_path: Path, policy: str, variables: dict[str, str], toml: str, compactions: int
) -> None:
    """S8.1, S8.2, B19: `--policy` names the rules and leaves what is off switched off."""
    place = place_in(tmp_path, {"README.md": "# A project\n", "infold.toml": toml})
    with ScriptedServer(Director([FULL, Say("Nothing is left to do.")])) as server:
        ran = infold(
            place,
            *(
                "run",
                "Read page one.",
                "--json",
                "--trust",
                "--policy",
                policy,
                "--window",
                "100k",
                "--model",
                "openai-chat/m",
            ),
            *("--base-url", base_of("openai-chat", server.url)),
            environ={**place.environ, **variables},
        )

    assert ran.returncode == 0, ran.stderr
    assert [event["event"] for event in events_in(ran.stdout)].count("session.compacted") == compactions
