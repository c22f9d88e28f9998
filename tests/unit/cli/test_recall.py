"""`infold recall` finds what was said, and says who, when and where."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main


def recall(*arguments: object) -> Result:
    """The verb's outcome."""
    return CliRunner().invoke(main, ["recall", *map(str, arguments)])


def hits(*arguments: object) -> list[dict[str, Any]]:
    """What the verb found, from its JSON."""
    found: list[dict[str, Any]] = json.loads(recall(*arguments, "--json").stdout)["hits"]
    return found


def test_a_result_is_found(data: Path) -> None:
    """The place is told by handle, tool and time, and the words are marked."""
    page = recall(data / "claude-code.jsonl", "no such file").stdout

    assert page.splitlines()[0].startswith("2.0  Bash  Bash result  2026-01-05 ")
    assert "«no» «such» «file»" in page


def test_sub_agents_are_searched(data: Path) -> None:
    """A hit in another session carries its id before the handle."""
    assert hits(data / "claude-code.jsonl", "blue kites")[0]["handle"].startswith("agent-u11/")


def test_a_session_can_be_named(data: Path) -> None:
    """With --session nothing else is searched."""
    assert {hit["session"] for hit in hits(data / "claude-code.jsonl", "kites", "--session", "sess-1")} == {"sess-1"}


def test_a_handle_brings_a_part_back(data: Path) -> None:
    """The whole part is printed, as it was recorded."""
    assert recall(data / "claude-code.jsonl", "2.0").stdout == "Exit code 2\nno such file\n"


def test_a_handle_that_names_nothing_is_refused(data: Path) -> None:
    """B6: a handle is never searched for as words; a number within words is."""
    told = recall(data / "claude-code.jsonl", "999.9")

    assert (told.exit_code, told.stdout) == (1, "")
    assert "no part '999.9' in this session" in told.stderr
    assert recall(data / "claude-code.jsonl", "sess-1/999.9").exit_code == 1
    assert recall(data / "claude-code.jsonl", "python/3.11").exit_code == 0


@pytest.mark.parametrize("query", ["", "  "])
def test_an_empty_query_is_refused(data: Path, query: str) -> None:
    """B6: without a query the error says what to give."""
    told = recall(data / "claude-code.jsonl", query)

    assert (told.exit_code, "QUERY is empty; give words" in told.stderr) == (2, True)


def test_no_more_than_asked_for(chat_file: Path) -> None:
    """--most bounds the places; fewer than one is bad usage."""
    assert len(hits(chat_file, "kites", "--most", "1")) == 1
    assert recall(chat_file, "kites", "--most", "0").exit_code == 2


def test_json_has_stable_keys(chat_file: Path) -> None:
    """Each hit has the same keys, whatever it is."""
    for query in ("kites", "bash", "1.0"):
        assert set(hits(chat_file, query)[0]) == {"handle", "session", "who", "what", "when", "score", "excerpt"}


@pytest.mark.parametrize("query", ["zebra", "(*"])
def test_nothing_found_is_no_error(data: Path, query: str) -> None:
    """It is told on stderr, and JSON has an empty list."""
    shown = recall(data / "pi.jsonl", query)

    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "try fewer or other words" in shown.stderr
    assert hits(data / "pi.jsonl", query) == []


def test_chinese_is_found_and_marked(tmp_path: Path) -> None:
    """Words of a script without spaces are found inside a sentence."""
    path = tmp_path / "zh.json"
    path.write_text(json.dumps([{"role": "user", "content": "请修复登录页面的错误"}]), "utf-8")

    assert "«登录页面»" in recall(path, "登录页面").stdout


@pytest.mark.slow
def test_a_corpus_file_is_searched(corpus: Path) -> None:
    """A rare word of a long session is found first where it is written."""
    found = hits(corpus / "claude-code.en.jsonl.gz", "frozen")

    assert "legacy/" in found[0]["excerpt"]
