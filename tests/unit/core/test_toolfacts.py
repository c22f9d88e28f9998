"""What a call did, in the habits of many agents."""

import json

import pytest

from infold.core.extract import (
    LONGEST_COMMAND,
    LONGEST_LINE,
    arguments_of,
    command_of,
    exit_status_of,
    failure_line,
    file_operations,
    is_failure,
    jobs_no_longer_running,
    running_job,
    todos_after,
)
from infold.core.ledger import TodoFact
from infold.core.messages import ResultStatus, ToolCallPart, ToolResultPart

PATCH = (
    "*** Begin Patch\n*** Add File: new.py\n+x\n*** Update File: old.py\n*** Move to: moved.py\n@@\n"
    "*** Delete File: gone.py\n*** End Patch"
)
PATCHED = (("new.py", "written"), ("old.py", "edited"), ("moved.py", "moved"), ("gone.py", "deleted"))


def call(tool: str, arguments: object) -> ToolCallPart:
    """A call, its arguments given as a value or as text."""
    return ToolCallPart("c", tool, arguments if isinstance(arguments, str) else json.dumps(arguments))


def answer(output: str, *, status: ResultStatus = "completed", exit_status: int | None = None) -> ToolResultPart:
    """A result."""
    return ToolResultPart("c", "", output, status, exit_status)


def files(tool: str, arguments: object, output: str = "") -> tuple[tuple[str, str], ...]:
    """The file operations of a call."""
    made = call(tool, arguments)
    return file_operations(made, arguments_of(made), output)


def command(tool: str, arguments: object) -> str:
    """The command of a call."""
    made = call(tool, arguments)
    return command_of(made, arguments_of(made))


def todos(tool: str, arguments: object, output: str = "", before: tuple[TodoFact, ...] = ()) -> tuple[TodoFact, ...]:
    """The todo list after a call."""
    made = call(tool, arguments)
    return todos_after(before, made, arguments_of(made), output)


@pytest.mark.parametrize(
    ("tool", "arguments", "operation"),
    [
        ("Read", {"file_path": "a.py", "limit": 5}, "read"),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, "edited"),
        ("MultiEdit", {"file_path": "a.py", "edits": []}, "edited"),
        ("Write", {"file_path": "a.py", "content": "x"}, "written"),
        ("NotebookEdit", {"notebook_path": "a.py", "new_source": "x"}, "edited"),
        ("read", {"filePath": "a.py"}, "read"),
        ("edit", {"filePath": "a.py", "oldString": "x", "newString": "y"}, "edited"),
        ("write", {"path": "a.py", "content": "x"}, "written"),
        ("read_file", {"absolute_path": "a.py"}, "read"),
        ("write_file", {"file_path": "a.py", "content": "x"}, "written"),
        ("replace", {"file_path": "a.py", "instruction": "i", "old_string": "x"}, "edited"),
        ("str_replace", {"path": "a.py", "old_str": "x", "new_str": "y"}, "edited"),
        ("str_replace_editor", {"command": "view", "path": "a.py", "view_range": [1, 2]}, "read"),
        ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "delete"}, "written"),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py"}, "edited"),
        ("str_replace_editor", {"command": "insert", "path": "a.py"}, "edited"),
        ("str_replace_editor", {"command": "undo_edit", "path": "a.py"}, "edited"),
        ("str_replace_editor", {"path": "a.py"}, "edited"),
        ("view", {"path": "a.py"}, "read"),
        ("create", {"path": "a.py", "file_text": "x"}, "written"),
        ("delete_file", {"target_file": "a.py"}, "deleted"),
        ("rename_file", {"path": "a.py"}, "moved"),
        ("open", {"path": "a.py", "line_number": 3}, "read"),
        ("read_file_v2", {"summary": "Tool use: **read_file_v2** • Read file: a.py"}, "read"),
    ],
)  # fmt: skip
def test_files_are_read_from_the_habits_of_agents(tool: str, arguments: object, operation: str) -> None:
    """B4: the file and the operation are understood from the tool's name and its arguments' keys."""
    assert files(tool, arguments) == (("a.py", operation),)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("apply_patch", PATCH),
        ("apply_patch", {"input": PATCH}),
        ("apply_patch", {"patchText": PATCH}),
        ("shell", {"command": ["apply_patch", PATCH]}),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}),
        ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF", "workdir": "/w"}),
    ],
)
def test_a_patch_names_its_files_however_it_is_sent(tool: str, arguments: object) -> None:
    """B4: a patch is read from raw text, from any argument, and from a shell's command."""
    assert files(tool, arguments) == PATCHED


@pytest.mark.parametrize(
    ("made", "output", "operation"),
    [
        (("bash", {"command": "open src/a.py 290"}), "[File: /r/src/a.py (372 lines total)]\n273: x", "read"),
        (("bash", {"command": "edit 1:1\ndelete = 1\nend_of_edit"}), "[File: /r/src/a.py (18 lines total)]\n1: x", "edited"),
        (("bash", {"command": "create a.py"}), "[File: /r/src/a.py (1 lines total)]\n1:", "written"),
        (("edit", {"search": "x", "replace": "y"}), "Replaced.\n(Open file: /r/src/a.py)\n(Current directory: /r)", "edited"),
    ],
)  # fmt: skip
def test_an_editor_s_open_file_is_read_from_what_it_shows(
    made: tuple[str, object], output: str, operation: str
) -> None:
    """B4: SWE-agent's editor commands act on the open file, which their output names."""
    assert files(*made, output) == (("/r/src/a.py", operation),)


@pytest.mark.parametrize(
    ("tool", "arguments", "output"),
    [
        ("Glob", {"pattern": "*.py", "path": "src"}, ""),
        ("grep", {"pattern": "x", "path": "src"}, ""),
        ("list_directory", {"path": "src"}, ""),
        ("Bash", {"command": "cat a.py"}, "[File: a.py (3 lines total)]"),
        ("Bash", {"command": "edit-config --all"}, "[File: a.py (3 lines total)]"),
        ("WebFetch", {"url": "https://example.com"}, ""),
        ("open_page", {"uri": "https://example.com/a.py"}, ""),
        ("read", {"path": ""}, ""),
        ("read", {"path": 3}, ""),
        ("read", {"path": "x" * 300}, ""),
        ("read", {"path": "a\nb"}, ""),
        ("Write", '{"file_path": "a.py", "content": "cut', ""),
        ("shell", {"command": []}, ""),
    ],
)
def test_what_touches_no_file_names_none(tool: str, arguments: object, output: str) -> None:
    """B4: searches, plain commands, web addresses and broken arguments are not taken for files."""
    assert files(tool, arguments, output) == ()


def test_a_file_address_is_a_file() -> None:
    """B4: an editor's file:// address is a file all the same."""
    assert files("read_file", {"uri": "file:///a.py"}) == (("file:///a.py", "read"),)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "npm  test\n", "description": "d"}),
        ("shell", {"command": ["bash", "-lc", "npm test"], "workdir": "/w"}),
        ("shell", {"command": ["npm", "test"]}),
        ("exec_command", {"cmd": "npm test", "yield_time_ms": 1}),
        ("run_shell_command", {"command": "npm test"}),
        ("execute_bash", {"command": "npm test", "is_input": "false"}),
        ("run_terminal_cmd", {"command": "npm test", "is_background": False}),
        ("local_shell", {"type": "exec", "command": ["powershell.exe", "-Command", "npm test"]}),
    ],
)
def test_a_command_is_read_from_the_habits_of_agents(tool: str, arguments: object) -> None:
    """B4: the command line is the same whether it comes as text, as a list, or behind a shell."""
    assert command(tool, arguments) == "npm test"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"command": "npm test"}),
        ("bash", {}),
        ("bash", {"command": {"a": 1}}),
        ("bash", {"command": ["bash", "-lc", 5]}),
        ("bash", "[1]"),
        ("bash", "[" * 100_000),
    ],
)
def test_what_runs_nothing_has_no_command(tool: str, arguments: object) -> None:
    """B4: other tools and arguments of no known shape run no command."""
    assert command(tool, arguments) == ""


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("ls\npytest -q", "ls; pytest -q"),
        ("# Check it\nls /tmp # more\ncat x", "ls /tmp; cat x"),
        ("git commit -m 'a\n# b'\ngit push", "git commit -m 'a # b'; git push"),
        ("for f in a b\ndo\n  cat $f\ndone\nmake", "for f in a b; do cat $f; done; make"),
        ("a && \\\nb &&\nc |\nd", "a && b && c | d"),
        ("cat <<'EOF' > x\n# a\nEOF\nmake", "cat … > x; make"),
        ("a\n\n# x\n\nb\n", "a; b"),
        ("# nothing else", "# nothing else"),
    ],
)
def test_a_script_becomes_one_line(script: str, line: str) -> None:
    """B4: comments are left out and commands stay apart, so that each is known for what it does."""
    assert command("bash", {"command": script}) == line


def test_a_long_command_is_quoted_in_part() -> None:
    """A command beyond the quoted length is cut there; the whole is in the log."""
    assert len(command("bash", {"command": "x" * 999})) == LONGEST_COMMAND


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\nno", 1),
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 127\nOutput:\nx", 127),
        ('{"output":"x","metadata":{"exit_code":2,"duration_seconds":0.1}}', 2),
        ("Exit code 1\nAuto-merging a.go", 1),
        ("out\n[Command finished with exit code 0]", 0),
        ("[The command completed with exit code 0.]", 0),
        ("<returncode>123</returncode>\n<output>\n</output>", 123),
        ("Output: x\nError: (none)\nExit Code: 1\nSignal: 0", 1),
        ("exit: 0\n<shellId: 1 completed with exit code 128>", 128),
        ("<exited with exit code 0>", 0),
        ("long text\n\nCommand exited with code 2", 2),
        ("exit status 3", 3),
        ("the worker said exit code 5\n" + "x" * 900 + "\nexit code 0 there\nCommand exited with code 4", 4),
        ("if not ok: exit 1\nsys.exit(2)", None),
        ("", None),
    ],
)
def test_an_exit_status_is_read_from_the_output(output: str, expected: int | None) -> None:
    """B4: the exit status is found in the forms agents write it, at the head or last at the tail."""
    assert exit_status_of(answer(output)) == expected


def test_a_recorded_status_wins() -> None:
    """B4: a status that was recorded counts, whatever the output says."""
    assert exit_status_of(answer("exit code 1", exit_status=0)) == 0


@pytest.mark.parametrize(
    ("result", "run", "expected"),
    [
        (answer("x", status="error"), "", True),
        (answer("x", status="interrupted"), "", True),
        (answer("ok"), "", False),
        (answer("x", exit_status=1), "", True),
        (answer("Error: no permission, yet all is well", exit_status=0), "make", False),
        (answer("x", status="error", exit_status=0), "make", True),
        (answer("Command exited with code 1"), "make", True),
        (answer("Command exited with code 1"), "", False),
        (answer("ERROR:\nNo replacement was performed"), "", True),
        (answer("Error: file not found"), "make", True),
        (answer("Your proposed edit has introduced new syntax error(s)."), "edit 1:2", True),
    ],
)
def test_failure_is_told_by_status_and_words(result: ToolResultPart, run: str, expected: bool) -> None:
    """B4: a text that quotes an exit code fails no reading; a tool without a status fails by its first word."""
    assert is_failure(result, run) is expected


@pytest.mark.parametrize(
    ("run", "output", "status", "expected"),
    [
        ("grep -n foo a.py", "(no output)\n\nCommand exited with code 1", None, False),
        ("cd src && grep -nE 'a|b;c' a.py", "Exit code 1", None, False),
        ("ls | rg x", "", 1, False),
        ("git -C src diff --quiet", "Error: Exit code 1", None, False),
        ("diff a b", "1c1\n< raise Error\n> pass", 1, False),
        ("[ -f a ]", "", 1, False),
        ("test -f a", "", 1, False),
        ("grep foo a.py", "grep: a.py: No such file or directory", 2, True),
        ("cd nowhere && grep foo a.py", "bash: cd: nowhere: No such file or directory", 1, True),
        ("grep -q foo a.py && make", "", 1, True),
        ("make test", "", 1, True),
        ("testify a", "", 1, True),
    ],
)
def test_a_no_is_no_failure(run: str, output: str, status: int | None, expected: bool) -> None:
    """B4: a search that finds nothing and a comparison that finds a difference have answered, not failed."""
    result = answer(output, status="error", exit_status=status)

    assert is_failure(result, run) is expected


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("x\nTypeError: bad\n  at a\nValueError: worse\nend", "ValueError: worse"),
        ("a\nsh: foo: command not found\nb", "sh: foo: command not found"),
        ("Chunk ID: 1\nProcess exited with code 1\nOutput:\n> lint", "> lint"),
        ("<returncode>1</returncode>", ""),
        ("\n  plain words  \n", "plain words"),
        ("> app@1.0.0 check\n> lint .\n\nFound 3 errors.", "Found 3 errors."),
        ("ERROR:\nThe file exists already.", "The file exists already."),
        (
            "Traceback (most recent call last):\n  File 'a'\n    run()\nSetupFailed\n[Command finished with exit code 1]",
            "SetupFailed",
        ),
        ("Traceback (most recent call last):\n  File 'a'", "File 'a'"),
        ("Error:", "Error:"),
        ("", ""),
    ],
)
def test_the_telling_line_is_chosen(output: str, line: str) -> None:
    """B4: the last named error, else the first line that speaks of one, else the first line of the tool's own words."""
    assert failure_line(answer(output)) == line


def items(key: str, **more: str) -> list[dict[str, str]]:
    """A list of two todos whose text stands under that key."""
    return [{**more, key: "read", "status": "completed"}, {**more, key: "write", "status": "pending"}]


LIST = (TodoFact("read", "completed"), TodoFact("write", "pending"))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("TodoWrite", {"todos": items("content", activeForm="Reading")}),
        ("todowrite", {"todos": items("content", id="1", priority="high")}),
        ("update_plan", {"explanation": "why", "plan": items("step")}),
        ("write_todos", {"todos": items("description")}),
        ("task_tracker", {"command": "plan", "task_list": items("title", notes="")}),
        ("update_todo", {"todos": "- [x] read\n- [ ] write"}),
    ],
)  # fmt: skip
def test_a_todo_list_is_read_from_the_habits_of_agents(tool: str, arguments: object) -> None:
    """B4: the list is the one the call writes, as a list of items or as a checklist."""
    assert todos(tool, arguments, before=(TodoFact("stale", ""),)) == LIST


def test_tasks_are_added_and_updated_one_by_one() -> None:
    """B4: where tasks have numbers, each is created with the number its result gives, and updated by it."""
    created = todos("TaskCreate", {"subject": "fix", "description": "long"}, "Task #1 created successfully: fix")
    two = todos("TaskCreate", {"subject": "test"}, "Task #12 created successfully: test", created)

    assert two == (TodoFact("#1 fix", "pending"), TodoFact("#12 test", "pending"))
    assert todos("TaskUpdate", {"taskId": "1", "status": "completed"}, "ok", two)[0].status == "completed"
    assert todos("TaskUpdate", {"taskId": "1", "status": "completed"}, "ok", two)[1] == two[1]
    assert todos("TaskUpdate", {"taskId": "1", "addBlockedBy": ["12"]}, "ok", two) == two


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("TodoWrite", {"todos": []}, ()),
        ("TodoWrite", {"todos": ["a", 3, {}]}, (TodoFact("a", ""), TodoFact("", ""))),
        ("ExitPlanMode", {"plan": "# Plan in prose"}, LIST),
        ("Task", {"prompt": "look"}, LIST),
        ("bash", {"todos": []}, LIST),
    ],
)
def test_only_a_list_replaces_a_list(tool: str, arguments: object, expected: tuple[TodoFact, ...]) -> None:
    """B4: an emptied list is empty; a plan in prose or another tool leaves the list as it was."""
    assert todos(tool, arguments, before=LIST) == expected


@pytest.mark.parametrize(
    ("output", "job"),
    [
        ("Command running in background with ID: bash_1", "bash_1"),
        ("Wall time: 30 seconds\nProcess running with session ID 61636\nOutput:\n", "61636"),
        ("<command with shellId: 22 is still running after 30 seconds.>", "22"),
        ("agentId: a44 (internal)\nThe agent is working in the background.", "a44"),
        ("Command moved to background (PID: 77).", "77"),
        ("Server is running in the background", "c"),
        ("done\nagentId: a44 (for resuming)", ""),
        ("body { background: red; id: 3 }", ""),
    ],
)
def test_a_job_left_running_is_known_by_its_id(output: str, job: str) -> None:
    """B4: what a command left running is recognised in the words agents use for it."""
    assert running_job(call("bash", {}), answer(output)) == job


@pytest.mark.parametrize(
    ("arguments", "output", "jobs"),
    [
        ({"session_id": 61636, "chars": ""}, "Process exited with code 0", ("61636",)),
        ({"session_id": 61636}, "Process running with session ID 61636", ()),
        ({"bash_id": "bash_1"}, "<status>running</status>", ()),
        ({"shell_id": "bash_1"}, '{"message":"Successfully killed shell: bash_1"}', ("bash_1",)),
        ({"shellId": "22"}, "<command with id: 22 stopped>", ("22",)),
        ({"command": "ls"}, "x", ()),
    ],
)
def test_a_job_asked_after_is_over_unless_it_still_runs(
    arguments: dict[str, object], output: str, jobs: tuple[str, ...]
) -> None:
    """B4: a call that names a job and no longer finds it running tells that it ended."""
    assert jobs_no_longer_running(arguments, answer(output)) == jobs


@pytest.mark.parametrize("piece", [" ", "\n", "exit", "[ ] ", "*** ", "agentId: ", "- ", "error ", "x"])
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """B17: endless repetition in a result or an argument is read in one go, not again from every place."""
    text = piece * (100_000 // len(piece))
    made, result = call("todo_bash", {"todos": text, "command": text}), answer(text)
    arguments = arguments_of(made)

    assert is_failure(result, command_of(made, arguments)) is False
    assert len(failure_line(result)) <= LONGEST_LINE
    assert file_operations(made, arguments, text) == ()
    assert running_job(made, result) == ""
    assert len(todos_after((), made, arguments, text)) <= 1
