"""Sessions as OpenCode imports them; `tests/e2e/test_opencode_import.py` asks OpenCode itself."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    Message,
    MessageId,
    ModelRef,
    StepFinishPart,
    StepStartPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    WorkPath,
    text_of,
)
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, summary, user
from infold.transcripts.record import RecordedCompaction, RecordedSession
from infold.transcripts.registry import read_bytes, read_transcript
from infold.transcripts.write_opencode import to_opencode

DATA = Path(__file__).parents[2] / "data" / "transcripts"


def recorded(*drafts: Message, **about: Any) -> RecordedSession:
    """A session of these messages."""
    return RecordedSession("kites", numbered(drafts), **about)


def again(session: RecordedSession) -> RecordedSession:
    """The session as it is read back from what was written."""
    (read,) = read_bytes(msgspec.json.encode(to_opencode(session)), name="x", format="opencode").sessions
    return read


def infos(session: RecordedSession) -> list[dict[str, Any]]:
    """What OpenCode is told of each message."""
    return [message["info"] for message in to_opencode(session)["messages"]]


def parts(session: RecordedSession, at: int) -> list[dict[str, Any]]:
    """The parts of one message, without what all parts have."""
    return [
        {name: value for name, value in part.items() if name not in ("id", "sessionID", "messageID")}
        for part in to_opencode(session)["messages"][at]["parts"]
    ]


def test_what_opencode_wrote_is_written_back() -> None:
    """An export that was read and written again is read as the same session, ids included."""
    session = read_transcript(DATA / "opencode.json").sessions[0]
    written = again(session)

    assert [message.id for message in written.messages] == [message.id for message in session.messages]
    assert [_bare(message) for message in written.messages] == [_bare(message) for message in session.messages]
    assert (written.compactions, written.title, written.parent) == (session.compactions, "Weave", "ses_0")


@pytest.mark.parametrize("name", ["claude-code.jsonl", "codex.jsonl", "pi.jsonl", "infold.jsonl", "gemini-cli.json"])
def test_every_word_is_kept(name: str) -> None:
    """What was said, called and answered in other agents' sessions is in what OpenCode reads."""
    session = read_transcript(DATA / name).sessions[0]
    written = again(session)

    assert _words(written) == _words(session)


def test_ids_are_opencodes_and_ascend() -> None:
    """Messages and parts are ordered by id there, and sessions share one table: ids differ between sessions."""
    session = recorded(user("a"), replies("b"), user("c"))
    document = to_opencode(session)
    ids = [message["info"]["id"] for message in document["messages"]]
    other = [message["info"]["id"] for message in to_opencode(replace(session, id="boats"))["messages"]]
    part_ids = [part["id"] for message in document["messages"] for part in message["parts"]]

    assert ids == sorted(ids)
    assert all(name.startswith("msg_") for name in ids)
    assert len(set(part_ids)) == len(part_ids)
    assert not set(ids) & set(other)
    assert document["info"]["id"].startswith("ses_")
    assert to_opencode(session) == document


def test_a_step_is_one_message() -> None:
    """The call holds its result, and the marks of the step stand around it, wherever the log has them."""
    usage = Usage(100, 20, 3, 40, 5, 168)
    call = replace(
        calls("bash", arguments='{"command":"make"}'),
        parts=(*calls("bash", arguments='{"a":1}').parts, StepStartPart("aa")),
    )
    answer = ToolMessage(
        MessageId(""),
        (
            ToolResultPart("", "bash", "torn", "completed", 2, 1_000, 3_000),
            StepFinishPart("tool-calls", "bb", usage, 0.5),
        ),
    )
    session = recorded(user("go"), call, answer)

    assert [part["type"] for part in parts(session, 1)] == ["step-start", "tool", "step-finish"]
    assert parts(session, 1)[1]["state"] == {
        "status": "completed",
        "input": {"a": 1},
        "output": "torn",
        "title": "bash",
        "metadata": {"exit": 2},
        "time": {"start": 1_000, "end": 3_000},
    }
    assert parts(session, 1)[2]["tokens"] == {
        "total": 168,
        "input": 100,
        "output": 20,
        "reasoning": 3,
        "cache": {"read": 40, "write": 5},
    }
    assert infos(session)[1]["time"]["completed"] == 3_000


def test_calls_end_in_every_way() -> None:
    """A failure is an error, an interruption is OpenCode's own, and a call without a result is still running."""
    failed, cut = result(output="no", status="error"), result(output="half", status="interrupted")
    session = recorded(user("go"), calls("a", "b", "c", arguments="not json"), failed, cut)
    states = [part["state"] for part in parts(session, 1)]

    assert [state["status"] for state in states] == ["error", "error", "running"]
    assert [state.get("error") for state in states] == ["no", "Tool execution aborted", None]
    assert states[1]["metadata"] == {"output": "half"}
    assert states[0]["input"] == {"arguments": "not json"}
    assert [part.status for part in again(session).messages[2].parts if isinstance(part, ToolResultPart)] == [
        "error",
        "interrupted",
    ]


def test_a_fold_becomes_a_request_and_a_summary() -> None:
    """A compaction of infold's own folds the same messages in OpenCode; results belong to the reply that called."""
    messages = (user("a"), calls("bash"), result(3), replies("b"), user("c"))
    session = recorded(
        *messages, compactions=(RecordedCompaction(4, "what was", 900, 2),), model=ModelRef("openai", "gpt-5")
    )
    asked, told = infos(session)[3:5]
    (part,) = parts(session, 3)

    assert [info["role"] for info in infos(session)] == ["user", "assistant", "assistant", "user", "assistant", "user"]
    assert part == {"type": "compaction", "auto": True, "tail_start_id": infos(session)[1]["id"]}
    assert (told["summary"], told["mode"], told["parentID"]) == (True, "compaction", asked["id"])
    assert told["modelID"] == "gpt-5"
    (fold,) = again(session).compactions
    assert (fold.summary, fold.first_kept) == ("what was", 1)


def test_a_fold_that_keeps_nothing_names_nothing() -> None:
    """Where no message was kept, or the summary stands where it was made, nothing is said twice."""
    bare = recorded(user("a"), replies("b"), compactions=(RecordedCompaction(2, "what was"),))
    said = recorded(
        user("a"), user("what was", synthetic=True), user("c"), compactions=(RecordedCompaction(1, "what was"),)
    )
    own = recorded(
        user("a"), requests_compaction(first_kept_id="gone"), summary("s"), compactions=(RecordedCompaction(1, "s"),)
    )
    opaque = recorded(user("a"), user("b"), compactions=(RecordedCompaction(1),))

    assert parts(bare, 2) == [{"type": "compaction", "auto": True}]
    assert [parts(said, at)[0]["type"] for at in range(4)] == ["text", "compaction", "text", "text"]
    assert parts(own, 1) == [{"type": "compaction", "auto": True}]
    assert (len(infos(own)), len(infos(opaque))) == (3, 2)


def test_the_request_of_a_fold_is_written_once() -> None:
    """S3.1, S4.1: where a log holds the request for a compaction, it is the one that the summary answers, as it was made."""
    asked = requests_compaction(first_kept_id="gone")
    asked = replace(asked, parts=(CompactionPart("p", auto=False, overflow=True),), agent="plan", created_ms=7)
    session = recorded(
        *(user("a"), replies("b"), asked, user("c"), replies("d"), requests_compaction(), user("e")),
        compactions=(RecordedCompaction(3, "first", first_kept=1), RecordedCompaction(6, "second")),
    )
    written = to_opencode(session)["messages"]
    requests = [one for one in written if one["parts"][0]["type"] == "compaction"]
    summaries = [one["info"] for one in written if one["info"].get("summary")]

    assert [one["info"]["parentID"] for one in written if one["info"].get("summary")] == [
        one["info"]["id"] for one in requests
    ]
    assert [one["parts"][0].get("tail_start_id") for one in requests] == [written[1]["info"]["id"], None]
    assert (requests[0]["parts"][0]["auto"], requests[0]["parts"][0]["overflow"]) == (False, True)
    assert requests[0]["info"]["agent"] == "plan"
    assert len(summaries) == 2
    assert [one.summary for one in again(session).compactions] == ["first", "second"]


def test_titles_of_messages_are_opencodes_summaries() -> None:
    """S6.2: a user message's title stands where OpenCode has it, and is read back from there."""
    session = recorded(user("Paint the kite red."), replies("Painted."), titles={MessageId("m0"): "Paint the kite"})

    assert [info.get("summary") for info in infos(session)] == [{"title": "Paint the kite", "diffs": []}, None]
    assert [*again(session).titles.values()] == ["Paint the kite"]


def test_a_request_that_waits_is_written_as_it_is() -> None:
    """S3.1: a compaction that was asked for and not carried out still waits in OpenCode."""
    session = recorded(user("a"), replies("b"), requests_compaction())

    assert [one["type"] for one in parts(session, 2)] == ["compaction"]
    assert len(infos(session)) == 3


def test_what_opencode_has_no_place_for_is_text() -> None:
    """Instructions in the middle are synthetic text; a medium without its bytes is named; one with an address is kept."""
    media = (FilePart("image/png", 9, "k.png", "https://example.com/k.png"), FilePart("image/gif", 9, byte_size=12))
    session = recorded(SystemMessage(MessageId("s"), (TextPart("Be brief."),)), UserMessage(MessageId("u"), media))

    assert parts(session, 0) == [{"type": "text", "text": "Be brief.", "synthetic": True}]
    assert parts(session, 1) == [
        {"type": "file", "mime": "image/png", "filename": "k.png", "url": "https://example.com/k.png"},
        {"type": "text", "text": "[image/gif, 12 bytes, not kept]", "synthetic": True},
    ]


def test_a_message_of_results_alone_is_part_of_its_reply() -> None:
    """Results under the user's role belong to the call as well; what a reply attached is named in it."""
    answer = UserMessage(MessageId("r"), (ToolResultPart("m1-call0", "bash", "torn"),))
    shown = replace(replies("b"), parts=(FilePart("image/png", 9, "k.png", byte_size=5), *requests_compaction().parts))
    session = recorded(user("a"), calls("bash"), answer, shown)

    assert [info["role"] for info in infos(session)] == ["user", "assistant", "assistant"]
    assert parts(session, 1)[0]["state"]["output"] == "torn"
    assert parts(session, 2) == [{"type": "text", "text": "[image/png k.png, 5 bytes, not kept]", "synthetic": True}]


def test_provider_data_is_kept_where_it_is_opencodes() -> None:
    """Metadata by provider is written; a seal of a wire's own would mean nothing there."""
    own = replace(
        replies("b"), parts=(reasoning('{"openai":{"itemId":"rs_9"}}'), reasoning('{"signature":"x"}'), reasoning("{"))
    )
    found = [part.get("metadata") for part in parts(recorded(user("a"), own), 1)]

    assert found == [{"openai": {"itemId": "rs_9"}}, None, None]


@pytest.mark.parametrize(
    ("reply", "error", "finish"),
    [
        (replies("x"), None, "stop"),
        (replies("x", finish="abort"), ("MessageAbortedError", "aborted"), None),
        (replace(replies("x", finish="error"), error="boom"), ("UnknownError", "boom"), "error"),
        (replace(replies("x"), error="ContentFilterError: no"), ("ContentFilterError", "no"), "stop"),
    ],
)
def test_errors_have_opencodes_names(
    reply: AssistantMessage, error: tuple[str, str] | None, finish: str | None
) -> None:
    """A reply that was broken off or went wrong says so in words that OpenCode knows."""
    info = infos(recorded(user("a"), reply))[1]
    told = info.get("error")

    assert (told and (told["name"], told["data"]["message"])) == error
    assert info.get("finish") == finish


def test_times_never_go_back() -> None:
    """Messages without a time have that of the one before them: OpenCode orders by time first."""
    session = recorded(
        replace(user("a"), created_ms=2_000),
        replies("b"),
        replace(user("c"), created_ms=1_000),
        replace(user("d"), created_ms=3_000),
    )
    document = to_opencode(session)

    assert [info["time"]["created"] for info in infos(session)] == [2_000, 2_000, 2_000, 3_000]
    assert document["info"]["time"] == {"created": 2_000, "updated": 3_000}


def test_the_session_tells_what_it_is() -> None:
    """Title, folder and what it cost stand in its info; an empty session is a document too."""
    reply = replace(replies("b", usage=Usage(10, 5)), cost=0.25, path=WorkPath("/srv/loom", "/srv"), agent="plan")
    info = to_opencode(recorded(user("a"), reply, reply, title="Weave", parent="run-1"))["info"]

    assert (info["title"], info["directory"], info["cost"]) == ("Weave", "/srv/loom", 0.5)
    assert info["tokens"]["input"] == 20
    assert "parentID" not in info
    assert to_opencode(RecordedSession("none", ()))["messages"] == []
    assert to_opencode(RecordedSession("none", ()))["info"]["title"] == "Session none"


def test_a_reply_answers_somebody() -> None:
    """OpenCode wants a parent of every reply: the message it names, else the newest of the user, else itself."""
    session = recorded(replies("first"), user("a"), replies("b"), replace(replies("c"), parent_id=MessageId("m1")))
    ids = [info["id"] for info in infos(session)]

    assert [info.get("parentID") for info in infos(session)] == [ids[0], None, ids[1], ids[1]]


def test_several_steps_in_one_message_stay_in_order() -> None:
    """A message of an older version of OpenCode has several steps, which are not mixed."""
    steps = (
        StepStartPart("a"),
        TextPart("x"),
        StepFinishPart("stop"),
        StepStartPart("b"),
        TextPart("y"),
        StepFinishPart("stop"),
    )
    session = recorded(user("a"), replace(replies("x"), parts=steps))

    assert [part["type"] for part in parts(session, 1)] == ["step-start", "text", "step-finish"] * 2


def reasoning(provider_data: str) -> Any:
    """A thought with something of its provider's."""
    return replace(replies("x", reasoning="hm").parts[0], provider_data=provider_data)


def _bare(message: Message) -> Message:
    """A message without the ids of its parts, which are made anew."""
    return replace(
        message, parts=tuple(replace(part, id="") if hasattr(part, "id") else part for part in message.parts)
    )


def _words(session: RecordedSession) -> set[str]:
    """What a model would read of a session, line by line."""
    outputs = (
        part.output for message in session.messages for part in message.parts if isinstance(part, ToolResultPart)
    )
    texts = (*map(text_of, session.messages), *outputs)
    return {line for text in texts for line in text.splitlines() if line.strip()}
