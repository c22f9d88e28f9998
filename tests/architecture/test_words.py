"""One word per concept: the core keeps to the words of style.md section 4."""

import ast
import re
from collections.abc import Iterator

import pytest

from .sources import Source, core_modules

UNWANTED = frozenset(
    {
        # names that say nothing
        *("manager", "handler", "helper", "helpers", "util", "utils", "misc", "common", "info", "stuff", "tmp"),
        # another word for something that has one
        *("placeholder", "truncate", "truncated", "chunk", "chunks", "conversation", "thread", "chat", "round"),
        *("history", "iteration", "context", "prompt", "buffer", "threshold", "digest", "recap", "condense", "shrink"),
        *("trim", "clear", "drop", "retrieve", "memory", "options", "config", "cfg", "llm", "backend", "proxy"),
        # abbreviations and versions
        *("msg", "msgs", "ctx", "idx", "num", "cnt", "mgr", "new", "v1", "v2"),
        # other spellings
        *("summarize", "summarizer", "tokenizer", "normalize", "serialize", "behavior", "color", "recognize"),
    }
)

FOREIGN = {
    "infold.core.messages": {"context", "prompt"},  # `Usage.prompt`, `Usage.context`: the providers' words
    "infold.core.budget": {"context"},  # `Window.context_tokens`: the models' limit is called so everywhere
}
"""Words that a module needs because somebody else's thing is called so."""


@pytest.mark.parametrize("source", core_modules(), ids=lambda source: source.name)
def test_core_keeps_to_the_words(source: Source) -> None:
    """No name in the core is made of a word that the glossary replaces."""
    unwanted = UNWANTED - FOREIGN.get(source.name, set())

    assert sorted(name for name in defined_names(source.text) if unwanted & set(words_of(name))) == []


def defined_names(source: str) -> set[str]:
    """The names a module chooses: of functions, classes, parameters, variables and fields."""
    return set(_defined(ast.parse(source)))


def words_of(name: str) -> list[str]:
    """The words a name is made of, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+", name)]


def test_unwanted_word_is_found() -> None:
    """Functions, classes, parameters, variables, fields and loop variables are all looked at, in either style of name."""
    source = (
        "class LogManager:\n    chunk_tokens: int\n\ndef truncate_text(old_history): ...\n"
        "for msg in x:\n    self.cfg = 1\nLLM_SHARE = 2\nwith y as tmp: ..."
    )
    found = {name for name in defined_names(source) if UNWANTED & set(words_of(name))}

    assert found == {"LogManager", "chunk_tokens", "truncate_text", "old_history", "msg", "cfg", "LLM_SHARE", "tmp"}


def test_names_are_read_as_words() -> None:
    """A word inside a longer one is not that word."""
    assert words_of("plan_prune") == ["plan", "prune"]
    assert words_of("HTTPSession") == ["http", "session"]
    assert words_of("MessageV2") == ["message", "v2"]
    assert not UNWANTED & set(words_of("renewed_contextual"))


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass
