"""I16: nothing says that the model still has what was taken from it, and only what was really read counts as read."""

from typing import Any

import pytest

from infold import fit
from infold.core.extract import extract
from infold.core.logged_message import Rendering, prune_part
from infold.core.messages import Message, ResultStatus, ToolResultPart
from infold.formats.registry import OPENAI_CHAT
from infold.testing.builders import calls, numbered, result, user

from .scenes import conversation, opened, played, story, told_of, written

SECRET = "the harbour opens at a quarter past four"


def ledger_of(*drafts: Message) -> dict[str, str]:
    """The files that a history leaves in its ledger, with what was last done to each."""
    return {fact.path: fact.operation for fact in extract(enumerate(numbered(drafts))).files}


def reads(path: str = "src/dock.py") -> Message:
    """A call that reads a file."""
    return calls("read", arguments=f'{{"path": "{path}"}}')


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("permission denied", "error"),
        ("", "interrupted"),
        ("Error: no such file", "completed"),
        ("ERROR: the path is a folder", "completed"),
    ],
)
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_i16_an_access_that_failed_is_none(tool: str, output: str, status: ResultStatus) -> None:
    """B4: a file that could not be read, written or edited is not told as read, written or edited."""
    attempt = calls(tool, arguments='{"path": "src/dock.py", "content": "x", "old_string": "y", "new_string": "z"}')

    assert ledger_of(user(), attempt, result(output=output, status=status)) == {}


def test_i16_a_later_failure_does_not_undo_an_access() -> None:
    """B4: what was read once was read, and what was never answered was not."""
    failure = result(output="permission denied", status="error")

    assert ledger_of(user(), reads(), result(), reads(), failure) == {"src/dock.py": "read"}
    assert ledger_of(user(), reads("src/quay.py")) == {}


def test_i16_a_stub_says_that_the_text_is_gone() -> None:
    """S2.8, B6: what stands for a pruned result holds nothing of it and names itself a stub, in every preset."""
    part = ToolResultPart("c", "read", SECRET * 40)
    for rendering in (Rendering(), Rendering(recall=True), Rendering(stub="[Old tool result content cleared]")):
        shown = prune_part(part, "3.0", rendering)  # type: ignore[arg-type]  # any text is a handle here
        assert isinstance(shown, ToolResultPart)
        assert SECRET not in shown.output
        assert shown.output.startswith("[")


def test_i16_a_file_that_was_folded_is_told_by_name_alone() -> None:
    """B4, B6: after its text left the view a file stands in the list of files read, and its text is one recall away."""
    session = opened("infold", OPENAI_CHAT, window=4_096)
    opening = numbered([user("Port it."), reads("src/harbour.py"), result(output=SECRET)], prefix="a")
    *_, ready = played(session, OPENAI_CHAT, (*opening, *story(30)[1:]))

    assert SECRET not in told_of(ready)
    assert "src/harbour.py" in told_of(ready)
    assert SECRET in session.recall("harbour quarter past")


@pytest.mark.parametrize(("reply_tokens", "done"), [(6, "Pruned"), (600, "Compacted")])
def test_i16_what_the_report_calls_kept_is_there(reply_tokens: int, done: str) -> None:
    """B22: everything that is no longer shown as it was is in the report's list, and nothing that is shown."""
    items = written(OPENAI_CHAT, conversation(20, reply_tokens=reply_tokens))
    fitted = fit(items, window=10_000)
    left = {entry.index for entry in fitted.report.left}
    shown = {
        number
        for number, item in enumerate(items)
        if any(item is sent or is_in_own_form(item, sent) for sent in fitted.messages)
    }

    assert {type(event).__name__ for event in fitted.report.events} == {done}
    assert left | shown == set(range(len(items)))
    assert not left & shown


def is_in_own_form(item: dict[str, Any], sent: dict[str, Any]) -> bool:
    """Whether a kept step has the words and calls of a reply."""
    if item["role"] != sent["role"] or item["role"] != "assistant":
        return False
    return (item.get("content") or "") in (sent.get("content") or "") and item.get("tool_calls") == sent.get(
        "tool_calls"
    )
