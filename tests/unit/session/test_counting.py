"""Which way of counting a model gets, and when a tokeniser is believed."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from infold import fit
from infold.catalogue import FAMILIES, FamilyName, upper_bound
from infold.core.budget import LEAST_ESTIMATED
from infold.core.tokens import estimate, estimate_tokens
from infold.session.counting import (
    _LOADED,
    EXACT_MARGIN,
    _exact_counter,
    counting_for,
    is_trustworthy,
    least_for,
    tool_schemas,
)

PROBE = "tiktoken is great!"
PROSE, HAN = "The ferry leaves Husum at noon. " * 20, "数据库连接失败，请检查配置文件。" * 20
O200K = [83, 8251, 2488, 382, 2212, 0]
CLOSED: tuple[FamilyName, ...] = ("claude", "gemini", "grok", "other")
OPEN: tuple[FamilyName, ...] = tuple(family for family in FAMILIES if family not in CLOSED)


class Reader:
    """A tokeniser that reads every text as these ids, and these ids as that text."""

    def __init__(self, ids: Sequence[int], text: str = PROBE) -> None:
        self.ids = ids
        self.text = text

    def encode(self, text: str) -> Sequence[int]:
        """The ids, whatever the text."""
        return self.ids if text else []

    def decode(self, ids: Sequence[int]) -> str:
        """The text, whatever the ids."""
        return self.text if ids else ""


@pytest.mark.parametrize("family", OPEN)
def test_public_vocabularies_are_counted_exactly(family: FamilyName) -> None:
    """B8: a family whose vocabulary is in the tokeniser package is counted, with a margin for framing alone."""
    pytest.importorskip("splintr", reason="the `tokens` extra is not installed")
    counting = counting_for(family)

    assert counting.is_exact
    assert counting.margin == EXACT_MARGIN
    assert callable(counting.ruler)
    assert 3 <= counting.ruler(PROBE) <= 8


def test_o200k_counts_what_is_published() -> None:
    """The known text has the number of tokens that the vocabulary's makers give."""
    pytest.importorskip("splintr", reason="the `tokens` extra is not installed")
    ruler = counting_for("o200k").ruler

    assert callable(ruler)
    assert ruler(PROBE) == len(O200K)
    assert ruler("") == 0


@pytest.mark.parametrize("family", CLOSED)
def test_closed_vocabularies_are_estimated(family: FamilyName) -> None:
    """B8, B15: where nobody has the vocabulary, the estimate is scaled by the family's factor, and carries its measured bound."""
    counting, known = counting_for(family), FAMILIES[family]
    narrow, wide = (estimate(text, counting.ruler) for text in (PROSE, HAN))

    assert not counting.is_exact
    assert narrow == round(estimate_tokens(PROSE) * known.factor)
    assert wide == round(estimate_tokens(HAN) * known.wide_factor)
    assert counting.margin * known.factor == pytest.approx(upper_bound(family))
    assert (counting.wide_margin or counting.margin) * known.wide_factor == pytest.approx(upper_bound(family))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_policy_with_its_own_rule_is_not_scaled(family: FamilyName) -> None:
    """S1.0: a document's preset is held to the plain estimate and the family's whole bound."""
    counting = counting_for(family, exact=False, scaled=False)

    assert (counting.ruler, counting.margin) == ("features", upper_bound(family))


@pytest.mark.parametrize("family", FAMILIES)
def test_exact_can_be_switched_off(family: FamilyName) -> None:
    """Off, every family is estimated, whatever is installed, and each family is counted the same way each time."""
    counting = counting_for(family, exact=False)

    assert not counting.is_exact
    assert counting.ruler is counting_for(family, exact=False).ruler


@pytest.mark.parametrize(
    ("reader", "vocabulary"),
    [
        (Reader([*O200K[:-1], 1]), "o200k_base"),
        (Reader(O200K), "cl100k_base"),
        (Reader(range(len(PROBE))), "qwen3"),
        (Reader([1, 2, 3], "tiktoken is green!"), "qwen3"),
        (Reader([], ""), "llama3"),
    ],
    ids=["one id wrong", "another vocabulary", "a token a character", "another text", "nothing at all"],
)
def test_a_tokeniser_that_reads_wrongly_is_not_trusted(reader: Reader, vocabulary: str) -> None:
    """B8: silently wrong counts are noticed on a text whose reading is known."""
    assert not is_trustworthy(reader, vocabulary)


@pytest.mark.parametrize(("reader", "vocabulary"), [(Reader(O200K), "o200k_base"), (Reader([1, 2, 3]), "qwen3")])
def test_a_tokeniser_that_reads_rightly_is(reader: Reader, vocabulary: str) -> None:
    """Published ids must be met; without them, few tokens that come back as the text."""
    assert is_trustworthy(reader, vocabulary)


def test_a_vocabulary_nobody_has_is_not_counted() -> None:
    """A package that lacks a vocabulary leaves the estimate, not an error."""
    assert _exact_counter("no_such_vocabulary") is None


def test_fit_counts_exactly_or_by_estimate() -> None:
    """B8: `exact` off keeps to the estimate, with its wider margin, and the report says which it was."""
    pytest.importorskip("splintr", reason="the `tokens` extra is not installed")
    text = "数据库连接失败，请检查配置文件。" * 20
    exact, estimated = (
        fit([{"role": "user", "content": text}], model="gpt-4o", exact=exact) for exact in (True, False)
    )
    ruler = exact.report.counting.ruler

    assert callable(ruler)
    assert exact.report.tokens_after == ruler(text) + 4
    assert estimated.report.tokens_after == estimate_tokens(text) + 4
    assert "(counted exactly)" in exact.report.explain()
    assert "(estimated)" in estimated.report.explain()
    assert estimated.report.counting.margin > exact.report.counting.margin


def test_a_report_is_held_to_what_is_known_of_the_vocabulary() -> None:
    """I13: a report has little room below an exact count or below Claude's estimate, which is low; more below a guess."""
    exact, claude, grok = least_for("o200k", len), least_for("claude", "features"), least_for("grok", "features")

    assert exact.wide == 0.8
    assert 1.0 > claude.prose > exact.prose > grok.prose > 0.5
    assert grok == least_for("o200k", "features")
    assert least_for(None, len) == LEAST_ESTIMATED
    scaled = least_for("claude", counting_for("claude").ruler)
    assert scaled.prose * FAMILIES["claude"].factor == pytest.approx(claude.prose)


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ([{"type": "function", "function": {"name": "bash", "parameters": {}}}], ["bash"]),
        ([{"type": "function", "name": "bash"}, {"type": "mcp", "server_label": "github"}], ["bash", "github"]),
        (
            [{"name": "read", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}],
            ["read", "web_search"],
        ),
        ([{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}, {"googleSearch": {}}], ["a", "b", "googleSearch"]),
        ('[{"name": "from text"}]', ["from text"]),
        ("tools in prose", []),
        ({"name": "not in a list"}, []),
        ([None, 3, "x", {}, {"name": ""}], ["?", "name"]),
        (None, []),
        ([], []),
    ],
)
def test_each_tool_is_measured(tools: object, names: list[str]) -> None:
    """B8: the size of each tool is known, in the shapes of all providers; what cannot be read is left out."""
    schemas = tool_schemas(tools, "features")

    assert [schema.name for schema in schemas] == names
    assert all(schema.tokens > 0 for schema in schemas)


def test_a_vocabulary_is_loaded_once() -> None:
    """Threads that ask for it at the same time share one tokeniser: a second would cost its memory again."""
    _exact_counter.cache_clear()
    _LOADED.clear()
    together = Barrier(8)

    def ask(_: int) -> object:
        together.wait()
        return counting_for(OPEN[0]).ruler

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, range(8)))

    assert len({id(ruler) for ruler in found}) == 1
