"""Take the pictures of `docs/guides/chat.md`, and that of `infold top` in `docs/guides/gateway.md`.

    python docs/screens.py           into docs/guides/screens
    python docs/screens.py FOLDER    somewhere else

Needs tmux. The chat is real and runs in a terminal; the model is a scripted server, so that the pictures stay the same.
"""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT))

from rich.console import Console  # noqa: E402 - after the path to the tests
from rich.terminal_theme import TerminalTheme  # noqa: E402
from rich.text import Text  # noqa: E402
from tests.e2e.agent_stage import Place, place_in, told_to  # noqa: E402
from tests.e2e.terminal import Terminal, terminal  # noqa: E402
from tests.e2e.test_top import converse, gateway  # noqa: E402

from infold.agent.agents import TITLE  # noqa: E402
from infold.core.messages import Usage, results_of, text_of  # noqa: E402
from infold.core.summary_request import COMPACTION_AGENT  # noqa: E402
from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest, Trouble  # noqa: E402
from infold.testing.scripted_server import ScriptedServer  # noqa: E402

__all__ = ["main"]

WIDTH = 100
MODEL = ("--model", "openai-chat/gpt-5-mini", "--window", "32k")
SLOWLY = Trouble(chunk_delay_seconds=0.05)

PLAIN = ["3c4048", "e06c75", "98c379", "e5c07b", "61afef", "c678dd", "56b6c2", "bec2c8"]
BRIGHT = ["6e747e", "f0828a", "aad48c", "f0d091", "7dc0f5", "d691e8", "6ec8d4", "f0f2f5"]


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour)
    return red, green, blue


THEME = TerminalTheme(_rgb("181a1f"), _rgb("d6d8dc"), [*map(_rgb, PLAIN)], [*map(_rgb, BRIGHT)])

FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px;
  line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""As rich draws it, with fonts of the reader's own in place of some from the network."""

TREE = {
    "ferry/quay.py": "def crossings(day):\n    return [c for c in TIMETABLE if c.day == day]\n",
    "ferry/feed.py": "".join(f"STOP_{n} = ('harbour {n}', {n * 7})\n" for n in range(220)),
    "tests/test_quay.py": "def test_cancelled():\n    assert crossings('monday') == []\n",
    "AGENTS.md": "Never touch vendor/.\n",
}
ASKED = "Cancelled crossings show up on the board. Mend that, and keep the API as it is."
ANSWER = """\
Cancelled crossings no longer appear: `crossings()` in **ferry/quay.py** leaves them out.

- The signature is unchanged, and so is `vendor/`.
- `git diff --stat` shows one file, one line.
"""
WATCHED = {
    "Port the ferry timetable importer to the new feed": 46,
    "Why does the login page flicker?": 21,
    "Add a test for cancelled crossings": 5,
}
"""Sessions of a gateway: what each is first asked, and how many requests it has."""

SUMMARY = """\
## Goal
Cancelled crossings must not show up on the board; the API stays as it is.

## Done
crossings() in ferry/quay.py leaves them out. The feed was read and needs no change.
"""


def script(request: ScriptedRequest) -> ScriptedAnswer:
    """The model's part."""
    told = told_to(request)
    usage = Usage(request.tokens // 5, 180, cache_read=request.tokens - request.tokens // 5)
    if TITLE.system_text in told:
        return Say("Hide cancelled crossings")
    if COMPACTION_AGENT.system_text in told:
        return Say(SUMMARY, usage=usage)
    return _reply(request, usage)


def _reply(request: ScriptedRequest, usage: Usage) -> ScriptedAnswer:
    last = request.messages[-1]
    done = [result.tool for message in request.messages for result in results_of(message)]
    said = text_of(last)
    if "feed" in said:
        return Say("", calls=(("read", {"path": "ferry/feed.py"}),), usage=usage)
    if results_of(last) and done.count("read") > 1:
        return Say("The feed has no cancelled crossings: it lists stops alone, so nothing changes there.", usage=usage)
    if not done:
        thought = "The board calls crossings(), which looks at the day alone.\n"
        return Say("", calls=(("read", {"path": "ferry/quay.py"}),), reasoning=thought, usage=usage)
    if done[-1] == "read":
        old, new = "if c.day == day]", "if c.day == day and not c.cancelled]"
        return Say("", calls=(("edit", {"path": "ferry/quay.py", "old": old, "new": new}),), usage=usage)
    if done[-1] == "edit":
        return Say("", calls=(("shell", {"command": "git diff --stat"}),), usage=usage)
    return Say(ANSWER, usage=usage)


def main() -> None:
    """Play the scene and take the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / "docs" / "guides" / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary, ScriptedServer(script) as server:
        play(place_in(Path(temporary), TREE), server.url, folder)
    watch(folder)


def watch(folder: Path) -> None:
    """Three sessions of a gateway, as `infold top` shows them."""

    def answer(request: ScriptedRequest) -> ScriptedAnswer:
        cached = request.tokens * 7 // 10
        return Say("Done.", usage=Usage(request.tokens - cached, 180, cache_read=cached))

    with gateway(answer) as (url, _):
        for number, (first, requests) in enumerate(WATCHED.items()):
            converse(url, requests, f"s{number}", first=first, model="gpt-5")
        command = [sys.executable, "-m", "infold", "top", url]
        with terminal(command, folder=folder, environ={**os.environ, "LANG": "C.UTF-8"}, size=(WIDTH, 12)) as shown:
            shown.wait(*(first[:12] for first in WATCHED), "q ends")
            drawn = shown.drawn.replace(url, "http://127.0.0.1:8377")
    write(drawn.rstrip().split("\n"), folder / "top.svg", "infold top")


def play(place: Place, url: str, folder: Path) -> None:
    """The scene."""
    command = [sys.executable, "-m", "infold", "chat", *MODEL, "--base-url", f"{url}/v1"]
    environ = {**place.environ, "LANG": "C.UTF-8", "COLORTERM": "truecolor"}
    with terminal(command, folder=place.root, environ=environ, size=(WIDTH, 38)) as shown:
        shown.wait("/help lists commands")
        shown.say(ASKED)
        shown.wait("(n)o:")
        shown.say("y")
        shown.wait("one file, one line", without="Ctrl-C stops")
        take(shown, folder / "chat.svg", "infold chat")
        shown.say("Does the feed need the same?")
        shown.wait("nothing changes there", without="Ctrl-C stops")
        turn(shown)
        shown.say("/context")
        shown.wait("Largest parts")
        take(shown, folder / "context.svg", "/context")
        turn(shown)
        shown.say("/compact the API that must not change")
        shown.wait("shortened", "1 compaction")
        take(shown, folder / "compact.svg", "/compact")


def turn(shown: Terminal) -> None:
    """A clean screen."""
    shown.type("", "C-l")


def take(shown: Terminal, path: Path, title: str) -> None:
    """What the terminal shows, as a picture; empty lines between the prompt and the status line are left out."""
    shown.wait("of 27.2k", without="Ctrl-C stops")
    lines = shown.drawn.split("\n")
    *above, status = lines
    while above and not Text.from_ansi(above[-1]).plain.strip():
        above.pop()
    write((*above, "", status), path, title)


def write(lines: Sequence[str], path: Path, title: str) -> None:
    """Draw the lines of a terminal as a picture."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi("\n".join(lines)))
    svg = console.export_svg(title=title, theme=THEME, code_format=FRAME, unique_id=path.stem)
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")


if __name__ == "__main__":
    main()
