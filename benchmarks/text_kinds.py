"""Texts of many kinds and any size, to see that time grows with their size and not faster.

Each kind is a function from a number of characters and the number of a run to a list of chat messages of about that size. Words
and numbers change along a text and from run to run, so that nothing is saved by repetition or by what is remembered of an
earlier run unless the kind is about repetition.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Messages: TypeAlias = list[dict[str, Any]]
Kind: TypeAlias = Callable[[int, int], Messages]

TURN = 2_000
"""Characters of a message where a text is told in several."""

LONG = 5_000
"""Characters of the message behind a pasted text: it leaves no room for the text, which could otherwise stay with its middle
left out and not be read."""

SHORT = "note {n}"

MOST_RUNS, VOWELS = 100, "aeiouy"
"""How many runs have no word and no number in common: each has its own vowels and last digits."""


def pieces(form: str, size: int, run: int) -> Iterator[str]:
    """Yield that form with numbers and words of its own, until there are as many characters."""
    number = written = 0
    while written < size:
        piece = form.format(n=MOST_RUNS * number + run, w=_word(number, run), v=_word(number * 7 + 3, run))
        written += len(piece)
        number += 1
        yield piece


def _word(number: int, run: int) -> str:
    """A word that no other number has."""
    letters = "bcdfghklmnprstvz"
    word = ""
    for place in range(4):
        number, at = divmod(number, len(letters))
        word += letters[at] + VOWELS[run // len(VOWELS) ** place % len(VOWELS)]
    return word + ("" if not number else _word(number, run))


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def pasted(form: str, end: str = " ") -> Kind:
    """One long message, then one that must be folded for."""
    return lambda size, run: [
        _user(end.join(pieces(form, size, run))),
        {"role": "assistant", "content": "Read."},
        _user(f"And now the rest. {' '.join(pieces('The lamp of {w} is at {v}.', LONG, run))}"),
    ]


def told(form: str, end: str = " ") -> Kind:
    """Turns of the user with short answers."""

    def messages(size: int, run: int) -> Messages:
        said: list[str] = []
        turns: Messages = []
        for piece in pieces(form, size, run):
            said.append(piece)
            if sum(map(len, said)) >= TURN:
                turns += [_user(end.join(said)), {"role": "assistant", "content": "Done."}]
                said = []
        return [*turns, _user(end.join(said) or "Go on.")]

    return messages


def twice(form: str) -> Kind:
    """The same long text pasted two times."""

    def messages(size: int, run: int) -> Messages:
        text = " ".join(pieces(form, size // 2, run))
        answer = {"role": "assistant", "content": "Read."}
        return [_user(text), answer, _user(f"Again: {text}"), answer, _user("What changed?")]

    return messages


def many_messages(size: int, run: int) -> Messages:
    """Many short messages of the user, one after the other."""
    return [_user(piece) for piece in pieces(SHORT, size, run)]


def many_parts(size: int, run: int) -> Messages:
    """One message of many short parts."""
    parts = [{"type": "text", "text": piece} for piece in pieces(SHORT, size, run)]
    return [{"role": "user", "content": parts}, {"role": "assistant", "content": "Read."}, _user("Go on.")]


def calls(form: str) -> Kind:
    """Calls with results of some lines, and a word of the assistant for each."""

    def messages(size: int, run: int) -> Messages:
        turns: Messages = [_user("Look through all of it. Never touch vendor/.")]
        for number, piece in enumerate(pieces(form, size, run)):
            word = _word(number, run)
            arguments = json.dumps({"command": f"cat src/{word}.py"})
            call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
            turns.append({"role": "assistant", "content": f"I decided on {word}.", "tool_calls": [call]})
            turns.append({"role": "tool", "tool_call_id": f"c{number}", "content": piece})
        return [*turns, _user("Go on.")]

    return messages


LICENCE = "You may use {w} and {v} as long as you never remove this notice, and section {n} must be kept with {w}."

KINDS: dict[str, Kind] = {
    "lifting": told("Forget the rule about {w}/. You no longer need {v}. Never mind what I said about {w}.py."),
    "allowing": told("You may touch {w}/ now. You can use {v} from now on."),
    "ruling": told("Never touch {w}/. Always run {v} before a commit. Only {w}.py may change."),
    "one rule again and again": told("Never push to main. You may push to main."),
    "values that change": told("Keep at most {n} lines in the log view of {w}."),
    "questions": told("Should {w} be in {v}? Why is {w}.py not tested?"),
    "reminders": told("Don't forget {w}. Bitte vergiss nicht, {v} zu prüfen."),
    "a licence": pasted(LICENCE),
    "two pasted documents": twice(LICENCE),
    "listing": pasted("- {w} must have {v}", "\n"),
    "quoting": pasted('> "{w}" said "{v}" (later: "{w}") """{n}"""', "\n"),
    "code": pasted("def {w}({v}: int = {n}) -> None:\n    return {v}.{w}(['{n}', \"{w}\"])", "\n"),
    "fences that do not close": pasted("```{w}\n{v} = {n}\n~~~", "\n"),
    "tables": pasted("| {w} | {n} | `{v}` | **{w}** |", "\n"),
    "JSON": pasted('{{"{w}": {{"{v}": [{n}, true, null], "path": "/srv/{w}/{v}.json"}}}},', "\n"),
    "log lines": pasted("2026-05-04 12:00:{n} ERROR [{w}] {v}.py:{n}: failed with {n}", "\n"),
    "traces": pasted('  File "/srv/{w}.py", line {n}, in {v}\n    raise {w}Error({n})', "\n"),
    "diffs": pasted("--- a/{w}.py\n+++ b/{w}.py\n@@ -{n},3 +{n},4 @@\n-{v} = {n}\n+{v} = {n}1", "\n"),
    "one long line": pasted("{w}{n}{v}", ""),
    "words without a full stop": pasted("{w} and {v}"),
    "blanks": pasted("{w}                                        \t\t\t{v}", "\n\n\n\n"),
    "open brackets": pasted("(((([[[[{{{{ {w} <<<<", ""),
    "full stops": pasted("{w}...{v}...", ""),
    "paths": pasted("/srv/{w}/{v}/{n}.txt and https://{w}.example/{v}?n={n}", "\n"),
    "figures": pasted("{n}.{n} {n},000 #{n} 0x{n}abcdef", " "),
    "HTML": pasted('<div class="{w}"><a href="/{v}">{n}</a></div>', ""),
    "Chinese": told("不要修改{w}模块。现在可以修改{v}了。第{n}组的报告来晚了。", ""),
    "Japanese": told("{w}は絶対に変更しないで。{v}は変更してもいいです。", ""),
    "Korean": told("{w} 파일은 수정하지 마세요. 이제 {v} 파일은 수정해도 됩니다."),
    "German": told("Fass {w} nicht an. Ab jetzt darfst du {v} ändern."),
    "emojis": told("🎉 {w} 👩‍👩‍👧 {v} 🚀"),
    "many short messages": many_messages,
    "many parts": many_parts,
    "calls": calls("{w} = {n}\n{v} = '/srv/{w}/{v}'\nE   {w}Error: {v} {n}\n"),
    "long results": calls("".join("{w}" + str(n) + " = {n}; {v}()\n" for n in range(200))),
}
