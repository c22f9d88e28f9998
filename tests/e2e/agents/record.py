"""Record the requests of each agent as small fixtures: `python tests/e2e/agents/record.py`.

Each does a small task and goes on with a second one, so that what it injects, dates and marks is seen to move. Written to
`tests/data/agents/`, one request a line, with the reply that it got: long texts shortened, the same text always alike, and no
path of the machine that recorded them.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.e2e.agents.clients import AGENTS, Agent, Home, run
from tests.e2e.agents.jobs import NEXT_TASK, TASK, Job, is_main, make_files

from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest, WireReply, count_usage
from infold.testing.scripted_server import ScriptedServer
from infold.testing.wire_replies import REPLY_WRITERS

FIXTURES = Path(__file__).resolve().parents[2] / "data" / "agents"
TOLD_HEADERS = ("x-session-id", "x-session-affinity", "session-id", "session_id", "thread-id", "user-agent")
INSTRUCTIONS = "# How we work\n\nCount every ship once. Write numbers without dots.\n"
FILES, SHIPS = 2, 4
SHORT, LONG = 60, 360
"""Characters that are kept of what stands beside the messages, and of what stands in them."""
MOST_TOOLS = 2


class Recorder:
    """A model that does two jobs one after the other and keeps what it was asked and said."""

    def __init__(self, agent: Agent) -> None:
        self.kept: list[tuple[ScriptedRequest, Say]] = []
        self._job = Job(agent.shell, FILES, FILES)

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """The job's answer."""
        answer = self._job(request)
        assert isinstance(answer, Say)
        self.kept.append((request, answer))
        return answer


def main() -> int:
    """Record all agents that can go on with a session."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for agent in (agent for agent in AGENTS if agent.again):
        with tempfile.TemporaryDirectory() as folder:
            lines = recorded(agent, Path(folder))
        path = FIXTURES / f"{agent.name}.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines))
        print(f"{path.name}: {len(lines)} requests, {path.stat().st_size:,} bytes")
    return 0


def recorded(agent: Agent, folder: Path) -> list[str]:
    """The requests of two runs of an agent, a line each."""
    own, work = folder / "own", folder / "work"
    own.mkdir()
    work.mkdir()
    make_files(work, FILES, SHIPS)
    (work / "AGENTS.md").write_text(INSTRUCTIONS)
    recorder = Recorder(agent)
    with ScriptedServer(recorder) as upstream:
        home = Home(own, work, upstream.url)
        plan = ["--agent", "plan"] if agent.name.startswith("opencode") else []
        again = [agent.again(NEXT_TASK)] if agent.again else []
        for command in ([*agent.command(TASK), *plan], *again):
            ended = run(agent, home, command)
            assert ended.status == 0, ended
    places = {str(work): "/srv/harbours", str(own): "/srv/agent", str(folder): "/srv", '"/root"': '"main"'}
    return [line(number, *kept, places) for number, kept in enumerate(recorder.kept, 1)]


def line(number: int, request: ScriptedRequest, say: Say, places: dict[str, str]) -> str:
    """A request and its reply as one line."""
    usage = count_usage(say, request.tokens, 1.0)
    reply = REPLY_WRITERS[request.format].body(WireReply(say, usage, number, str(request.body["model"])))
    row = {
        "path": request.path,
        "is_main": is_main(request),
        "headers": {name: request.headers[name] for name in TOLD_HEADERS if name in request.headers},
        "body": {field: shortened(value, _most(field)) for field, value in request.body.items()},
        "reply": reply,
    }
    text = msgspec.json.encode(row).decode()
    for place, name in places.items():
        text = text.replace(json.dumps(place)[1:-1], name)
    return text


def _most(field: str) -> int:
    return LONG if field in ("messages", "input") else SHORT


def shortened(value: Any, most: int) -> Any:
    """The same value with its long texts shortened and, of the tools, only the first few."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[: most * 2 // 3]} … {value[-most // 3 :]}"
    if isinstance(value, list):
        kept = value[:MOST_TOOLS] if most == SHORT else value
        return [shortened(one, most) for one in kept]
    if isinstance(value, dict):
        is_system = value.get("role") in ("system", "developer")
        return {name: shortened(one, SHORT if is_system else most) for name, one in value.items()}
    return value


if __name__ == "__main__":
    sys.exit(main())
