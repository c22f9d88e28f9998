"""Which sentences of a user lay down a rule: what must, must not, may only be done.

Decides by marking words in the languages agents are used in; what is no sentence (a pasted log, a table of code) is left
alone by length. Wide on purpose: a rule too many costs a line of the checkpoint, a rule too few costs the user's trust.
"""

import re

__all__ = ["constraint_sentences", "sentences"]

LONGEST_SENTENCE = 600
"""Characters beyond which a line is taken for pasted material rather than a rule."""

_ENGLISH = (
    r"must(?:n['’]t)?|never|always|do not|don['’]t|dont|only|avoid|without|make sure|ensure|should(?: not|n['’]t)|shall|"
    r"may not|can['’]t|cannot|forbidden|prohibited|not allowed|required?|mandatory|no matter what|under no circumstances|"
    r"at all times|stick to|leave .{1,60} (?:alone|untouched|as (?:it is|is|they are))|"
    r"keep .{1,60} (?:unchanged|intact|as (?:it is|is|they are))|instead of|rather than|prefer|refrain|important"
)
_EUROPEAN = (
    r"niemals|nie|immer|muss|müssen|darf|dürfen|nicht|nur|kein(?:e[nmrs]?)?|ausschließlich|verboten|"
    r"jamais|toujours|doit|doivent|(?:ne |n['’]).{1,40} pas|uniquement|seulement|interdit|"
    r"nunca|siempre|debe[ns]?|solo|sólo|solamente|prohibido|evita|"
    r"no (?:toque|use|cambie|modifique|borre|elimine|añada|agregue|escriba|haga|ponga|cree|ejecute|instale|suba)[ns]?|"
    r"não|sempre|apenas|deve|mai|soltanto|non \w+re|"
    r"никогда|всегда|нельзя|не (?:надо|нужно|\w+(?:й|йте|и|ите|ь|ьте))|только|обязательно|долж(?:ен|на|но|ны)|запрещено"
)
_MARKS = re.compile(
    rf"(?<![\w-])(?:{_ENGLISH}|{_EUROPEAN})(?![\w-])"
    r"|不要|不能|不可|不得|不准|不许|勿|禁止|必须|必須|务必|一定要|只能|只用|只改|仅|始终|永远|避免|绝不|保持.{1,40}不变"
    r"|(?<![特分区级类识判性差鉴告个])别(?![的人名处])"
    r"|必ず|絶対|禁止|ないで|ないこと|てはいけ|てはなら|てはダメ|のみ|だけ|常に|避け|べき"
    r"|하지\s?마|하지\s?말|지\s?마세요|지\s?말|말고|말아|반드시|절대|금지|항상|만\s?사용|꼭|안\s?됩니다|안\s?돼|않도록",
    re.IGNORECASE,
)
_BREAKS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_FENCES = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)


def sentences(text: str) -> tuple[str, ...]:
    """A text's sentences and lines, trimmed, as they stand."""
    return tuple(piece for piece in (part.strip() for part in _BREAKS.split(text) if part) if piece)


def constraint_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a user's text that lay down a rule, verbatim, in order; fenced code is not the user's voice."""
    return tuple(
        sentence
        for sentence in sentences(_FENCES.sub("\n", text))
        if len(sentence) <= LONGEST_SENTENCE and _MARKS.search(sentence)
    )
