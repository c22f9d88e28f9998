"""Calls that a person declined, and what they said instead, read from the results that agents write for them.

A result is a program's text and may quote anybody. It is believed only where nothing foreign can stand at its beginning: where
it is marked as failed and no command ran, or where the call would have changed a file, which shows nothing of what is in one.
"""

import re
from collections.abc import Iterable

from infold.core.ledger import FileOperation
from infold.core.messages import ToolResultPart

_DECLINED = re.compile(
    r"\s*(?:Error: *)?(?:"
    r"The user doesn['’]t want to (?:proceed with this tool use|take this action right now)\b|"
    r"Permission for this tool use was denied\b|\[Request interrupted by user|"
    r"The user rejected (?:permission to use this specific tool call|this tool call)\b|"
    r"The user denied this operation\b|"
    r"(?:exec command|patch) rejected by user\s*$|"
    r"\[Operation Cancelled\] Reason: User did not allow tool call)"
)
"""In this order: Claude Code, OpenCode and Copilot, Cline and its kin, Codex, Gemini."""
_SAID = re.compile(r"(?:the user said|following feedback|user feedback): *", re.IGNORECASE)
_TAGGED = re.compile(r"\s*<feedback>(.*?)</feedback>", re.DOTALL)
_ADDED_NOTE = re.compile(r"\n[^\S\n]*+Note: The user['’]s next message may contain ")
"""What Claude Code adds for the model after the person's words."""


def declined(result: ToolResultPart, operations: Iterable[tuple[str, FileOperation]]) -> bool:
    """Whether a person declined the call that this result answers, so that nothing was done and nothing went wrong."""
    if result.exit_status is not None or _DECLINED.match(result.output) is None:
        return False
    return result.status != "completed" or any(operation != "read" for _, operation in operations)


def words_of_decline(result: ToolResultPart) -> str:
    """What the person said when declining, as they said it; empty where they said nothing."""
    said = _SAID.search(result.output)
    if said is None:
        return ""
    words = result.output[said.end() :]
    tagged = _TAGGED.match(words)
    return (tagged.group(1) if tagged else _ADDED_NOTE.split(words)[0]).strip()
