"""Calls that a person declined."""

import pytest

from infold.core.extract import decline_reason, is_declined
from infold.core.ledger import FileOperation
from infold.core.messages import ResultStatus, ToolResultPart

CLAUDE_CODE = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
STOP = "STOP what you are doing and wait for the user to tell you how to proceed."
NOTE = "\n\nNote: The user's next message may contain a correction or preference. Pay close attention."
OPENCODE = "The user rejected permission to use this specific tool call"

SAID = [
    (f"{CLAUDE_CODE}To tell you how to proceed, the user said:\nas a separate PR\n\nplease{NOTE}", "as a separate PR\n\nplease"),
    (f"Error: {CLAUDE_CODE}To tell you how to proceed, the user said:\nnever", "never"),
    ("Permission for this tool use was denied. The user said:\nno", "no"),
    (f"{OPENCODE} with the following feedback: use tabs", "use tabs"),
    ("The user denied this operation and provided the following feedback:\n<feedback>\nkeep it\n</feedback>\n<more>", "keep it"),
    ("The user denied this operation. The user provided the following feedback:\n<feedback>\nno\n</feedback>", "no"),
]  # fmt: skip

SILENT = [
    f"{CLAUDE_CODE}{STOP}{NOTE}",
    f"The user doesn't want to take this action right now. {STOP}",
    "[Request interrupted by user for tool use]",
    f"{OPENCODE}.",
    "The user denied this operation.",
    "exec command rejected by user",
    "patch rejected by user\n",
    "[Operation Cancelled] Reason: User did not allow tool call",
]

BEGINNING = f"{CLAUDE_CODE}To tell you how to proceed, the user said:\nnever"


def answer(output: str, status: ResultStatus = "error", exit_status: int | None = None) -> ToolResultPart:
    """A result with this output."""
    return ToolResultPart("c", "t", output, status=status, exit_status=exit_status)


@pytest.mark.parametrize(("output", "words"), [*SAID, *((output, "") for output in SILENT)])
def test_a_declined_call_is_known_by_the_habits_of_agents(output: str, words: str) -> None:
    """B2: what a person says when declining is their words alone, without what the agent wrote around them."""
    assert is_declined(answer(output), ())
    assert decline_reason(answer(output)) == words


@pytest.mark.parametrize(
    ("result", "operation", "expected"),
    [
        (answer(BEGINNING, "completed"), "edited", True),
        (answer(BEGINNING, "completed"), "written", True),
        (answer(BEGINNING, "completed"), "read", False),
        (answer(BEGINNING, "completed"), None, False),
        (answer(BEGINNING, "error", exit_status=1), None, False),
        (answer(BEGINNING, "error", exit_status=1), "edited", False),
        (answer(f"Exit code 1\n{BEGINNING}"), None, False),
        (answer("exec command rejected by user preferences"), None, False),
        (answer("Error: no such file"), "edited", False),
    ],
)
def test_a_text_that_quotes_a_decline_is_none(
    result: ToolResultPart, operation: FileOperation | None, expected: bool
) -> None:
    """B2: what a file, a page or a command shows is nobody's no, however it begins."""
    assert is_declined(result, () if operation is None else (("a.py", operation),)) is expected
