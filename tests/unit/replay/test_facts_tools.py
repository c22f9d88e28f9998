"""Facts that tools leave."""

import json

import pytest

from infold.core.messages import AssistantMessage, Message, MessageId, ToolCallPart, ToolMessage, ToolResultPart
from infold.replay.facts import SPELLINGS, FactClass, HistoryFact, events_of, tool_facts

ID = MessageId("m")


def ran(
    tool: str, arguments: object, output: str = "", *, failed: bool = False, exit_status: int | None = None
) -> Message:
    """A call together with its result, as one message."""
    call = ToolCallPart(output, tool, arguments if isinstance(arguments, str) else json.dumps(arguments))
    result = ToolResultPart(output, tool, output, "error" if failed else "completed", exit_status)
    return AssistantMessage(ID, (call, result))


def facts(kind: FactClass, *messages: Message) -> list[HistoryFact]:
    """The facts of that class."""
    return [fact for fact in tool_facts(events_of(enumerate(messages))) if fact.kind == kind]


@pytest.mark.parametrize(
    ("tool", "arguments", "operation"),
    [
        ("Edit", {"file_path": "/p/src/a.py"}, "edited"),
        ("Write", {"file_path": "/p/src/a.py"}, "written"),
        ("str_replace_editor", {"command": "create", "path": "/p/src/a.py"}, "written"),
        ("str_replace_editor", {"command": "view", "path": "/p/src/a.py"}, "read"),
        ("delete_file", {"path": "/p/src/a.py"}, "deleted"),
        ("rename", {"path": "/p/src/a.py"}, "moved"),
        ("apply_patch", "*** Update File: src/a.py\n+x", "edited"),
    ],
)
def test_a_file_has_the_state_of_its_last_change(tool: str, arguments: object, operation: str) -> None:
    """Whatever the tool is called, path and operation are known."""
    assert [(fact.cues, fact.answers) for fact in facts("file", ran(tool, arguments))] == [
        (("src/a.py",), SPELLINGS[operation])
    ]


def test_reading_does_not_undo_a_change() -> None:
    """A file that was edited and read again is edited; one that was written before is no longer just written."""
    path = {"path": "src/a.py"}
    found = facts("file", ran("write", path, "1"), ran("edit", path, "2"), ran("read", path, "3"))

    assert [(fact.answers, fact.stale) for fact in found] == [(SPELLINGS["edited"], ("written",))]


@pytest.mark.parametrize(
    ("tool", "arguments", "output"),
    [
        ("read", {"path": "https://example.com/a.html"}, ""),
        ("read", {"path": "src/*.py"}, ""),
        ("think", {"path": "src/a.py"}, ""),
        ("edit", {"path": "src/a.py"}, "Error: no match"),
    ],
)
def test_what_is_no_file_or_was_refused_is_no_fact(tool: str, arguments: object, output: str) -> None:
    """Addresses, patterns, tools that touch nothing and refused edits leave no state."""
    assert facts("file", ran(tool, arguments, output)) == []


def test_the_last_outcome_of_a_command_counts() -> None:
    """Of two runs the later one is the answer and the earlier is stale; the folder it runs in is no part of the cue."""
    first = ran("bash", {"command": "cd /p && make test"}, "2 failed, 3 passed", exit_status=1)
    second = ran("bash", {"command": "cd /p && make test"}, "5 passed", exit_status=0)

    assert [(fact.cues, fact.answers, fact.stale) for fact in facts("command", first, second)] == [
        (("make test",), ("5 passed",), ("3 passed",))
    ]


@pytest.mark.parametrize(
    ("arguments", "output", "status", "answer"),
    [
        ({"command": "ls"}, "", 0, "exit 0"),
        ({"cmd": ["bash", "-lc", "ls"]}, "Process exited with code 2", None, "exit 2"),
        ({"script": "ls"}, "<returncode>3</returncode>", None, "exit 3"),
    ],
)
def test_an_exit_status_is_an_outcome(arguments: object, output: str, status: int | None, answer: str) -> None:
    """As recorded, or as the output says."""
    assert facts("command", ran("shell", arguments, output, exit_status=status))[0].answers[0] == answer


@pytest.mark.parametrize(
    "arguments", [{"command": "ls"}, {"command": []}, {"command": 3}, {"command": "x", "path": "y"}]
)
def test_without_an_outcome_there_is_no_fact(arguments: object) -> None:
    """A command whose result does not tell how it ended, and what is no command, is not asked for."""
    assert facts("command", ran("shell", arguments, "some output")) == []


def test_an_error_is_known_by_its_origin() -> None:
    """The first line that speaks of trouble is the answer, of a command or of a file; without one, the last line."""
    command = ran("bash", {"command": "make"}, "compiling things\nfatal: no rule\nmore of it", exit_status=2)
    file = ran("edit", {"path": "src/a.py"}, "String to replace is nowhere here", failed=True)
    silent = ran("edit", {"path": "src/b.py"}, "", failed=True)

    assert [(fact.cues[0], fact.answers[0]) for fact in facts("error", command, file, silent)] == [
        ("make", "fatal: no rule"),
        ("src/a.py", "string to replace is nowhere here"),
    ]


def test_symbols_belong_to_their_file() -> None:
    """What an edit defines is asked for by the file; what it replaces is not, nor what a patch of many files holds."""
    edit = ran(
        "edit",
        {"path": "src/a.py", "old_string": "def gone(): ...", "new_string": "def gone(): ...\ndef arrived(): ..."},
    )
    many = ran(
        "apply_patch", "*** Update File: a.py\n+def first(): ...\n*** Update File: b.py\n+def second(): ...", "2"
    )

    assert [(fact.cues, fact.answers) for fact in facts("identifier", edit, many)] == [(("src/a.py",), ("arrived",))]


def test_the_last_todo_list_counts() -> None:
    """Items with their status, of the newest list alone; items without text or status are none."""
    old = ran("TodoWrite", {"todos": [{"content": "Old", "status": "pending"}]}, "1")
    new = ran("update_plan", {"plan": [{"step": "Ship it", "status": "done"}, "x", {"step": ""}], "why": "y"}, "2")

    assert [(fact.cues, fact.answers) for fact in facts("todo", old, new)] == [(("ship it",), ("done",))]


def test_a_result_without_its_call_tells_nothing() -> None:
    """What nobody asked for has no cue."""
    assert list(tool_facts(events_of([(0, ToolMessage(ID, (ToolResultPart("x", "bash", "fatal: no"),)))]))) == []
