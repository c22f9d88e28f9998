"""Docstrings, comments, messages and docs are plain engineering English: a list of words and turns of phrase that are not."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from .sources import PROJECT, modules

PLAIN = {
    r"\b(?:nobody|somebody|whoever|whomever|everybody)\b": "name who acts: the caller, the client, another process",
    r"(?<!there )\b(?:is|are|was|were) (?:no|none)\b(?! (?:longer|more|fewer|less|larger|smaller|heavier|older|newer)\b)": (
        "say what it is not, or that it is missing"
    ),
    r"\bthere (?:is|are) none that\b": "say what is missing",
    r"\b(?:told|tells|heard|hears)\b": "use report, return, pass, receive, read",
    r"\banew\b": "again",
    r"(?<!`)\bbeside\b": "next to, in addition to, with",
    r"\b(?:affair|in vain|for want of|be it that|what came|as it came|as they came)\b": "say it plainly",
    r"\bthe one who\b": "name who acts",
}
"""From a banned turn of phrase to what to do instead."""

REQUIREMENT = re.compile(r"(?<![\w.])[ABCDIS]\d{1,2}(?:\.\d+)?(?![\w.])")
"""Ids of requirements belong in tests and in the behaviour reference."""

TO_MODELS = frozenset(
    {
        *(("infold.core.summary_request", words) for words in ("somebody", "what came")),
        *(("infold.agent.agents", words) for words in ("beside", "told")),
        *((f"infold.agent.{module}", "is no") for module in ("instructions", "tools.edit", "tools.files")),
        *((f"infold.agent.{module}", "are no") for module in ("toolbox", "tools.edit")),
    }
)
"""Words of prompts and of tools' answers: text for models is measured behaviour, and not changed for its style."""

PAGES = ("README.md", "CONTRIBUTING.md", "GLOSSARY.md", "SECURITY.md", "docs/why.md", "docs/guides", "docs/concepts")


def test_sources_are_plain_english() -> None:
    """No docstring, comment or message uses a banned turn of phrase or a requirement's id."""
    lines = [
        f"{source.path.relative_to(PROJECT)}:{line}: {problem}"
        for source in modules()
        for line, text in _prose_of(source.text)
        for problem in _problems(text, ids=True)
        if (source.name, problem.split("'")[1].lower() if "'" in problem else "") not in TO_MODELS
    ]

    assert not lines, "\n".join(lines)


def test_pages_are_plain_english() -> None:
    """The same holds for the pages a user reads."""
    lines = [
        f"{page.relative_to(PROJECT)}:{number}: {problem}"
        for page in _pages()
        for number, text in enumerate(page.read_text().splitlines(), 1)
        for problem in _problems(text, ids=False)
    ]

    assert not lines, "\n".join(lines)


def test_the_list_finds_what_it_names() -> None:
    """Each turn of phrase is found, and its common neighbours are not."""
    assert [
        len(list(_problems(text, ids=True))) for text in ("nobody reads it", "is no page", "was told", "see B12")
    ] == [1] * 4
    assert not list(_problems("It is no longer sent; the A4 page is not none.", ids=False))


def _prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Return every string and comment of a module with its line; text sent to models is data, not prose."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _problems(text: str, *, ids: bool) -> Iterator[str]:
    for pattern, remedy in PLAIN.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield f"{match[0]!r}: {remedy}"
    if ids:
        yield from (f"{match[0]}: ids belong in tests" for match in REQUIREMENT.finditer(text))


def _pages() -> Iterator[Path]:
    for name in PAGES:
        path = PROJECT / name
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path]
