"""`infold inspect` tells what fills a window, of any file it can read."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main
from infold.core.messages import SessionId
from infold.ports import SessionKey
from infold.session.report import CATEGORIES
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.transcripts.infold_log import entries_to_log
from infold.transcripts.registry import FORMAT_NAMES

KEYS = {
    *("file", "format", "session", "model", "window_tokens", "counting", "messages", "tokens", "by_category"),
    *(
        "by_turn",
        "by_tool",
        "tool_schemas",
        "working_window_tokens",
        "largest",
        "usage",
        "compactions",
        "cost_dollars",
        "sessions",
        "skipped",
    ),
}


def inspect(*arguments: object) -> Result:
    """The verb's outcome."""
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)])


def told(*arguments: object) -> dict[str, Any]:
    """What the verb tells of its first file in JSON."""
    shown = inspect(*arguments, "--json")
    assert shown.exit_code == 0, shown.stderr
    first: dict[str, Any] = json.loads(shown.stdout)["files"][0]
    return first


def test_every_transcript_is_shown(data: Path) -> None:
    """Each of our own transcripts, of every format, gets its page in one call."""
    shown = inspect(*sorted(data.iterdir()))

    assert shown.exit_code == 0
    assert shown.stdout.count("By category") == len(list(data.iterdir()))
    assert all(f"{name} session" in shown.stdout for name in FORMAT_NAMES)


def test_json_has_stable_keys(data: Path) -> None:
    """Whatever the format, the same keys are there, and every category."""
    files = json.loads(inspect(*sorted(data.iterdir()), "--json").stdout)["files"]

    assert all(set(file) == KEYS for file in files)
    assert all(tuple(file["by_category"][when]) == CATEGORIES for file in files for when in ("now", "whole"))


def test_the_sums_agree(data: Path) -> None:
    """Categories add up to the total, and turns to the total less what travels beside the messages."""
    for path in data.iterdir():
        file = told(path)
        whole = file["by_category"]["whole"]
        beside = file["tokens"]["whole"] - sum(turn["tokens"] for turn in file["by_turn"])
        assert sum(whole.values()) == file["tokens"]["whole"]
        assert 0 <= beside <= whole["system"] + whole["tools"]


def test_each_wire_format_is_read(request_file: Path) -> None:
    """A request body of each provider is recognised, with its system prompt and its tool."""
    file = told(request_file)

    assert file["format"] == request_file.stem
    assert file["by_category"]["now"]["system"] > 0
    assert [tool["tool"] for tool in file["by_tool"]] == ["bash"]


def test_a_bare_list_is_read(chat_file: Path, tmp_path: Path) -> None:
    """Messages without a body around them, on one line and packed, are read as well."""
    bare = tmp_path / "bare.json.gz"
    bare.write_bytes(gzip.compress(json.dumps(json.loads(chat_file.read_text("utf-8"))["messages"]).encode()))

    assert told(bare)["format"] == "openai-chat"
    assert told(bare)["messages"] == 6


@pytest.mark.parametrize("mark", ["[Conversation Summary]", "[COMPACTED_CONTEXT]"])
def test_a_marked_summary_is_counted_as_one(tmp_path: Path, mark: str) -> None:
    """B26: another program's summary in a chat history is told by its marker and counted; all messages still stand."""
    path = tmp_path / "chat.json"
    said = [("user", "Build it."), ("assistant", f"{mark} The keel is laid."), ("user", f"What is {mark}?")]
    path.write_text(json.dumps([{"role": role, "content": text} for role, text in said]))
    now = told(path)["by_category"]["now"]

    assert now["summary"] > 0
    assert (now["assistant"], now["user"] > 0) == (0, True)
    assert now == told(path)["by_category"]["whole"]
    assert [one["summary"] for one in told(path)["compactions"]] == [f"{mark} The keel is laid."]


def test_plain_text_with_a_system_field_is_anthropics(tmp_path: Path) -> None:
    """Where messages look alike in two formats the fields beside them decide, and --format has the last word."""
    path = tmp_path / "plain.json"
    path.write_text('{"system": "Be brief.", "messages": [{"role": "user", "content": "Hello"}]}', "utf-8")

    assert told(path)["format"] == "anthropic-messages"
    assert told(path, "--format", "openai-chat")["format"] == "openai-chat"


def test_a_window_is_drawn_where_one_is_known(data: Path) -> None:
    """The recorded model's window, or the one that is given, is shown with how full it is."""
    assert told(data / "claude-code.jsonl")["window_tokens"] == 1_000_000
    assert told(data / "claude-code.jsonl", "--window", "8k")["window_tokens"] == 8_000
    assert "% of its 8k" in inspect(data / "claude-code.jsonl", "--window", "8k").stdout
    assert "times its 10\n" in inspect(data / "tau.json", "--window", "10").stdout


def test_cost_is_told_where_the_price_is_known(data: Path) -> None:
    """Dollars by category for a model with a price, none for a model without."""
    assert sum(told(data / "claude-code.jsonl")["cost_dollars"].values()) > 0
    assert told(data / "claude-code.jsonl", "--model", "nonesuch")["cost_dollars"] is None


def test_an_unknown_model_is_explained(data: Path) -> None:
    """A model nobody knows gets an assumed window, and the page says so; a recorded one is only named."""
    page = " ".join(inspect(data / "pi.jsonl", "--model", "nonesuch").stdout.split())

    assert "a window of 32,768 tokens is assumed" in page
    assert "no model recorded" in inspect(data / "tau.json").stdout


def test_sub_agents_are_listed_and_shown(data: Path) -> None:
    """The page names the other sessions; --session shows one, by the beginning of its id."""
    page = inspect(data / "claude-code.jsonl").stdout
    file = told(data / "claude-code.jsonl", "--session", "agent-b")

    assert "Other sessions in this file: 2, sub-agents: 2" in page
    assert file["session"] == "agent-bee"
    assert [one["parent"] for one in file["sessions"]] == [None, "sess-1", "sess-1"]


@pytest.mark.parametrize(("wanted", "problem"), [("agent", "several"), ("nobody", "no such")])
def test_a_wrong_session_is_bad_usage(data: Path, wanted: str, problem: str) -> None:
    """A session that is not there, or not the only one, ends with status 2 and the ids there are."""
    shown = inspect(data / "claude-code.jsonl", "--session", wanted)

    assert shown.exit_code == 2
    assert problem in shown.stderr
    assert "agent-bee" in shown.stderr


def test_recorded_compactions_divide_now_from_whole(data: Path) -> None:
    """After a recorded compaction the window holds its summary and what followed."""
    file = told(data / "claude-code.jsonl")

    assert len(file["compactions"]) == 1
    assert file["by_category"]["now"]["summary"] > 0
    assert file["tokens"]["now"] < file["tokens"]["whole"]


def test_an_unknown_format_lists_what_was_tried(tmp_path: Path) -> None:
    """The error is one line, names every format and says how to name one."""
    path = tmp_path / "sky.json"
    path.write_text('{"colour": "blue"}', "utf-8")
    shown = inspect(path)

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert len(shown.stderr.splitlines()) == 1
    assert all(name in shown.stderr for name in (*FORMAT_NAMES, "openai-chat", "gemini"))
    assert "--format NAME" in shown.stderr


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02", b"[]", b"[1, 2]", b'{"messages": 3}', b'{"messages": ['])
def test_what_cannot_be_read_is_one_line(tmp_path: Path, content: bytes) -> None:
    """Empty, binary, damaged and senseless files end with status 1 and one line, never a traceback."""
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    shown = inspect(path)

    assert shown.exit_code == 1
    assert len(shown.stderr.splitlines()) == 1
    assert shown.stderr.startswith("Error: ")


def test_one_bad_file_does_not_hide_the_others(data: Path, tmp_path: Path) -> None:
    """The good file is shown, the bad one told, and the status is 1."""
    bad = tmp_path / "bad.json"
    bad.write_text("{}", "utf-8")
    shown = inspect(bad, data / "pi.jsonl")

    assert shown.exit_code == 1
    assert "pi session" in shown.stdout
    assert "bad.json" in shown.stderr


def test_a_cut_off_file_is_read_in_part(data: Path, tmp_path: Path) -> None:
    """What is there is shown, and stderr says what was skipped and where."""
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes((data / "pi.jsonl").read_bytes()[:-40])
    shown = inspect(cut)

    assert shown.exit_code == 0
    assert "note: cut.jsonl: skipped (1 time, first at line" in shown.stderr


def test_bookkeeping_is_no_news(data: Path) -> None:
    """Lines that never hold a message are not told on stderr, but stand in the JSON."""
    assert inspect(data / "pi.jsonl").stderr == ""
    assert told(data / "pi.jsonl")["skipped"]


def test_control_characters_are_not_obeyed(tmp_path: Path) -> None:
    """What was recorded cannot move the cursor or recolour the terminal."""
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps([{"role": "user", "content": "\x1b[2J\x07gone\u202e"}]), "utf-8")

    assert not {"\x1b", "\x07", "\u202e"} & set(inspect(path).stdout)


@pytest.mark.slow
def test_a_corpus_file_is_shown(corpus: Path) -> None:
    """Of a long session the compactions, the usage and the largest tool are found."""
    file = told(corpus / "claude-code.en.jsonl.gz")

    assert 150_000 < file["tokens"]["whole"] < 200_000
    assert (len(file["compactions"]), len(file["sessions"])) == (1, 1)
    assert file["by_tool"][0]["tool"] == "Read"
    assert file["usage"]["largest_request_tokens"] > 100_000


TOOLS = [
    {"name": "read", "description": "Read a file. " * 40, "input_schema": {}},
    {"name": "deploy", "input_schema": {}},
]


def test_tool_definitions_are_listed(tmp_path: Path) -> None:
    """B8: each tool's definition with its share of the window, the largest first, and those that were never called."""
    call = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "text"}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"messages": messages, "tools": TOOLS, "max_tokens": 9}))
    shown = inspect(path, "--window", "1m", "--working-window", "10k").stdout

    assert [(one["tool"], one["is_called"]) for one in told(path)["tool_schemas"]] == [
        ("read", True),
        ("deploy", False),
    ]
    assert "never called: 1" in shown
    assert "of the working window of 10k" in shown


def test_tool_sizes_of_a_stored_session_are_listed(tmp_path: Path) -> None:
    """B8: a log that infold stored has the size of each tool, though not its definition."""
    store, key = MemoryStore(), SessionKey("", SessionId("s"))
    session = Session(store, "s", SessionSettings(window=8_000, format="openai-chat"))
    session.prepare([{"role": "user", "content": "go"}], tools=TOOLS)
    session.record(
        {
            "choices": [{"message": {"role": "assistant", "content": "done"}}],
            "usage": {"prompt_tokens": 200, "completion_tokens": 1},
        }
    )
    path = tmp_path / "log.jsonl"
    path.write_bytes(entries_to_log("s", (entry for _, entry in reversed(list(store.newest_first(key))))))

    assert [one["tool"] for one in told(path)["tool_schemas"]] == ["read", "deploy"]
