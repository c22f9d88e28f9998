"""The shell tool."""

from pathlib import Path

import msgspec
import pytest

from infold.agent.permissions import BUILD_RULES, decide, parse_rules
from infold.agent.tools.files import RUNS_LATER
from infold.agent.tools.shell import SHELL, ShellArguments
from infold.agent.tools.tool import ActionRequest, ToolFailed, ToolOutput, Workspace

from .conftest import ActionOf, RunTool


def test_a_command_gives_what_it_said(root: Path, run_tool: RunTool) -> None:
    """S5.5: a command runs at the project's root; its output is whole, and success needs no words."""
    (root / "a.txt").write_text("x\n")

    assert run_tool(SHELL, command="ls; echo done") == ToolOutput("a.txt\ndone", exit_status=0)


@pytest.mark.parametrize(
    ("command", "output", "status"),
    [
        ("echo no >&2; exit 3", "no\n[exit status 3]", 3),
        ("true", "[no output]", 0),
        ("false", "[no output]\n[exit status 1]", 1),
        ("kill -9 $$", "[no output]\n[exit status 137]", 137),
        ("printf 'a\\0b'", "a\ufffdb", 0),
        (
            r"printf '\033[1;31mred\033[0m \033]8;;http://x\033\\link\033]8;;\a [1m \033[2K\033(Bend'",
            "red link [1m end",
            0,
        ),
        (r"printf '\033[0m\n'", "[no output]", 0),
        (r"printf 'a\r\n10%%\r20%%\n'", "a\r\n10%\r20%", 0),
    ],
)
def test_the_outcome_is_put_in_words(run_tool: RunTool, command: str, output: str, status: int) -> None:
    """Empty output and an exit status other than 0 are put in words, because a model sees only those."""
    assert run_tool(SHELL, command=command) == ToolOutput(output, exit_status=status)


@pytest.mark.slow
def test_the_time_limit_is_explained(run_tool: RunTool) -> None:
    """A command that takes too long is stopped, with advice for the model."""
    done = run_tool(SHELL, command="echo begun; sleep 60", timeout_seconds=1)

    assert done.exit_status == 124
    assert done.output.startswith("begun\n[stopped after 1 seconds")
    assert "timeout_seconds" in done.output


def test_a_background_process_is_reported(run_tool: RunTool) -> None:
    """A server in the background does not hold the call, with advice to send its output to a file."""
    done = run_tool(SHELL, command="sleep 0.3 & echo up")

    assert done.output.startswith("up\n[something it started still runs")
    assert done.exit_status == 0


def test_a_folder_may_be_given(root: Path, run_tool: RunTool, action_of: ActionOf) -> None:
    """A command runs in the folder that is named, and its action shows that as a command would."""
    (root / "my folder").mkdir()

    assert run_tool(SHELL, command="pwd", folder="my folder").output.endswith("/my folder")
    assert action_of(SHELL, command="pwd", folder="my folder") == ActionRequest("shell", "cd 'my folder' && pwd")
    with pytest.raises(ToolFailed, match="there is no nowhere"):
        run_tool(SHELL, command="pwd", folder="nowhere")


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd",
        "cp x ../y",
        "ls ~",
        "tar --file=/etc/hosts",
        "cat < /etc/hosts",
        "cd .. && ls",
        "cat '/etc/passwd'",
    ],
)
def test_paths_outside_are_noticed(action_of: ActionOf, command: str) -> None:
    """A command that names something outside the project counts as outside."""
    assert action_of(SHELL, command=command).outside


@pytest.mark.parametrize(
    "command",
    [
        "ls src",
        "grep /api/v1 x.py",
        "make > /dev/null 2>&1",
        "git diff main..topic",
        "echo a/../b",
        "sed s/a/b/ x",
        "echo /",
    ],
)
def test_what_only_looks_like_a_path_is_let_be(root: Path, action_of: ActionOf, command: str) -> None:
    """Addresses, ranges and expressions are not paths outside; the root of the file system is one."""
    assert action_of(SHELL, command=command).outside is (command == "echo /")


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat out/notes.txt",
            "cd out && cat notes.txt",
            "cat out/new.txt",
            "cat sub/../out/notes.txt",
            "cat 'out'/n*",
        ),
        *("cat /et[c]/passwd", "cat /{etc,x}/passwd", "cat /{d..f}tc/passwd", "cat /e\\tc/passwd", 'cat /e"t"c/passwd'),
        *(
            "cat ''/etc/passwd",
            "cat $HOME/notes.txt",
            'cat "$HOME"/notes.txt',
            "cat $nothing/etc/passwd",
            "cat $HO{ME,x}/notes.txt",
        ),
        *(
            "cat ~+/../x",
            "cat ~root/x",
            "cat $OLDPWD/x",
            "cd - && cat x",
            "cd && cat x",
            "cat $PWD/../x",
            "cd sub/up && ls",
        ),
        *(
            "grep -f/etc/passwd x",
            "curl -d@/etc/passwd x",
            "cat file:///etc/passwd",
            "tar -C/etc x",
            "cat o*/notes.txt",
        ),
        *("cat /{" + "x," * 70 + "etc}/passwd", "cat " + "a" * 5_000, "cat\t/etc/passwd", "true|cat /etc/passwd"),
    ],
)
def test_no_spelling_leads_out_unasked(root: Path, action_of: ActionOf, command: str) -> None:
    """B41: links, globs, braces, escapes, quotes, variables and options lead a command out of the project only when asked."""
    (root / "out").symlink_to(root.parent)
    (root / "sub").mkdir()
    (root / "sub" / "up").symlink_to("/etc")
    (root.parent / "notes.txt").touch()
    action = action_of(SHELL, command=command)

    assert action.outside
    assert decide(action, (*BUILD_RULES, *parse_rules({"shell:*": "allow"}))) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *("cat inner", "cat .e*", "cat sub/../inner", "cp inner x", "cd sub && cat ../*.json", "cat {inner,x}"),
        *("cat cred*", "wc -l ./*.json"),
    ],
)
def test_a_file_of_secrets_is_known_by_where_it_leads(root: Path, action_of: ActionOf, command: str) -> None:
    """B41: a link or a glob that leads to a file of secrets is asked for like its name."""
    (root / "sub").mkdir()
    for name in (".env", "credentials.json"):
        (root / name).touch()
    (root / "inner").symlink_to(".env")

    assert action_of(SHELL, command=command).reveals or action_of(SHELL, command=command).outside
    assert decide(action_of(SHELL, command=command), (*BUILD_RULES, *parse_rules({"shell:*": "allow"}))) == "ask"


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("echo x > .envrc", True),
        ("cat a > .github/workflows/ci.yml", True),
        ("cp evil .husky/pre-commit", True),
        ("sed -i s/a/b/ .vscode/tasks.json", True),
        ("tee .venv/bin/pip", True),
        ("mv x .git/hooks/pre-commit", True),
        ("cd .git && cp ../x hooks/pre-commit", True),
        ("cat .github/workflows/ci.yml", False),
        ("ls .git", False),
        ("source .venv/bin/activate", False),
        (".venv/bin/python -m pytest", False),
        ("python -m venv .venv", False),
        ("git add .github/workflows/ci.yml", False),
        ("for f in a b; do wc -l $f; done", False),
        ("make test", False),
    ],
)
def test_files_that_run_later_are_asked_for(root: Path, action_of: ActionOf, command: str, asks: bool) -> None:
    """B41: a command that may change a file that runs later is asked for; reading one, or using an environment, is not."""
    for folder in (".git/hooks", ".venv/bin", ".github/workflows"):
        (root / folder).mkdir(parents=True)
    (root / ".venv" / "bin" / "python").symlink_to("/usr/bin/env")
    action = action_of(SHELL, command=command)

    assert action.outside is asks
    assert not asks or action.why == RUNS_LATER or ".." in command


def test_what_is_judged_is_what_runs(root: Path, action_of: ActionOf, run_tool: RunTool) -> None:
    """B41: spaces that only Python strips are part of the command for the rules as they are for the shell."""
    rules = (*BUILD_RULES, *parse_rules({"shell:echo *": "allow"}))
    for ending in ("\u2028", "\x85", "\u3000", "\x1c", "\r"):
        command = f"echo x >&2{ending}"
        assert decide(action_of(SHELL, command=command), rules) == "ask"
        assert action_of(SHELL, command=command).what == command
    assert action_of(SHELL, command=" \techo x\n ").what == "echo x"
    assert run_tool(SHELL, command=" echo x\n").output == "x"


def test_commands_see_no_keys(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B41: keys of model providers and infold's own secrets are not in the environment of commands, unless they are named."""
    hidden = {
        **dict.fromkeys(
            ("OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENROUTER_API_KEY_2", "AZURE_OPENAI_API_KEY"), "k"
        ),
        **dict.fromkeys(("INFOLD_TOKEN", "INFOLD_SECRET"), "k"),
        "INFOLD_STORE": "postgresql://ada:k@db/x",
    }
    seen = {"STRIPE_API_KEY": "k", "GITHUB_TOKEN": "k", "INFOLD_WINDOW": "64k", "EDITOR": "ed"}
    for name, value in {**hidden, **seen}.items():
        monkeypatch.setenv(name, value)

    def names(passed: tuple[str, ...] | None) -> set[str]:
        output = SHELL.run(ShellArguments("env"), Workspace(root, passed=passed)).output
        return {line.partition("=")[0] for line in output.splitlines()} & {*hidden, *seen}

    assert names(()) == set(seen)
    assert names(("OPENAI_API_KEY",)) == {*seen, "OPENAI_API_KEY"}
    assert names(None) == {*hidden, *seen}


def test_a_folder_outside_is_outside(action_of: ActionOf) -> None:
    """Where a command runs counts too."""
    assert action_of(SHELL, command="ls", folder="..").outside


@pytest.mark.parametrize("command", ["", "  \n", "a\0b"])
def test_no_command_is_refused(run_tool: RunTool, command: str) -> None:
    """A command that cannot be run is explained."""
    with pytest.raises(ToolFailed, match="no command"):
        run_tool(SHELL, command=command)


def test_the_limit_has_a_limit() -> None:
    """Ten minutes are the most that may be asked for."""
    with pytest.raises(msgspec.ValidationError, match="600"):
        msgspec.convert({"command": "x", "timeout_seconds": 601}, ShellArguments)
