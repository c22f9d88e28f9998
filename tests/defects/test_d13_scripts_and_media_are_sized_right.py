"""D13: Chinese, Japanese and Korean are not taken for a quarter of what they are, nor base64 for a hundred times as much."""

from base64 import b64encode

import pytest

from infold import fit
from infold.core.messages import FilePart
from infold.core.tokens import estimate, estimate_tokens, measure_part
from infold.formats.media import file_part
from infold.formats.registry import OPENAI_CHAT
from infold.testing.builders import calls, numbered, result, user

from ..invariants.scenes import infold_at, written  # noqa: TID252 - `tests` is no package to name

COUNTED = {
    "请把解析器移植到新的接口，不要修改数据库结构，并在提交之前运行所有测试。": 22,
    "テストを必ず実行してから、変更をコミットしてください。データベースの構造は変えないでください。": 30,
    "데이터베이스 구조를 변경하지 말고, 커밋하기 전에 반드시 모든 테스트를 실행하세요.": 23,
    "Port the parser to the new interface, do not touch the database, and run all tests before you commit.": 21,
}
"""Sentences with their tokens by o200k; a quarter of their characters would be 9, 11, 11 and 25."""
LARGEST_ERROR = 0.3


@pytest.mark.parametrize(("text", "tokens"), COUNTED.items(), ids=["zh", "ja", "ko", "en"])
def test_d13_every_script_is_sized_about_right(text: str, tokens: int) -> None:
    """B15: our estimate is near what a tokeniser counts, whatever the script, alone and said over."""
    for times in (1, 20, 200):
        assert abs(estimate_tokens(text * times) - tokens * times) < LARGEST_ERROR * tokens * times + 3


@pytest.mark.parametrize(("text", "tokens"), list(COUNTED.items())[:3], ids=["zh", "ja", "ko"])
def test_d13_a_quarter_of_the_characters_would_be_far_off(text: str, tokens: int) -> None:
    """S7.1: the documents' rule, kept for their presets, is under half of the truth here; `infold` does not use it."""
    assert estimate(text, "round") < 0.5 * tokens + 1
    assert infold_at(8_192).policy.estimate == "features"


def test_d13_a_wide_session_fits() -> None:
    """B8: a history in Chinese is made to fit by its tokens, of which it has nearly as many as letters, at each request."""
    text = next(iter(COUNTED))
    drafts = [draft for _ in range(20) for draft in (calls("bash"), result(output=text * 12))]
    items = written(OPENAI_CHAT, numbered([user(text), *drafts]))
    for length in range(1, len(items) + 1, 2):
        fitted = fit(items[:length], window=4_096, exact=False)
        letters = sum(letter in text for message in fitted.messages for letter in str(message))
        assert letters * COUNTED[text] / len(text) < 4_096

    assert fitted.report.changed


@pytest.mark.parametrize("kilobytes", [10, 100, 1_000, 5_000])
def test_d13_a_picture_costs_what_a_picture_costs(kilobytes: int) -> None:
    """B8: its bytes make no difference: a picture of 1,024 by 768 pixels is 1,049 tokens, small or large."""
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x04\x00\x00\x00\x03\x00"
    data = b64encode(head + b"\x07" * (kilobytes * 1_000)).decode()
    part = file_part("anthropic", "image/png", data=data)

    assert isinstance(part, FilePart)
    assert measure_part(part, "features") == 1_049
    assert estimate(data, "round") > 3_000
