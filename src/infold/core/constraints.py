"""Which sentences of a user lay down a rule: what must, must not, may only be done.

Decides by marking words in the languages agents are used in. What is no sentence of the user's (code, logs, errors that were
pasted) is left alone where its shape or length tells, and so is a question, unless it asks for a rule to be kept. Wide on
purpose: a rule too many costs a line of the checkpoint, a rule too few costs the user's trust.
"""

import re

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
    r"|不要|不能|不可|不得|不准|不许|勿|禁止|必须|必須|务必|一定要|只能|只用|只改|始终|永远|避免|绝不|保持.{1,40}不变"
    r"|(?:^|[，。；：、,;:（(*.-]\s?|[请应须需可]|(?<!主)要)仅(?!仅)|仅(?:限|供|允许|可|需|须)"
    r"|(?<![特分区级类识判性差鉴告个])别(?![的人名处])"
    r"|必ず|絶対|禁止|ないで|ないこと|てはいけ|てはなら|てはダメ|のみ|だけ|常に|避け|べき"
    r"|하지\s?마|하지\s?말|지\s?마세요|지\s?말|말고|말아|반드시|절대|금지|항상|만\s?사용|꼭|안\s?됩니다|안\s?돼|않도록",
    re.IGNORECASE,
)
_ASKS_BACK = re.compile(
    r"\W*(?:(?:and|so|but|ok|okay|hm+|also|well|wait|oh|then)\b\W*)*(?:"
    r"(?:is|are|was|were|does|did|has|isn['’]t|aren['’]t|wasn['’]t|weren['’]t|doesn['’]t|didn['’]t|hasn['’]t)|"
    r"(?:do|don['’]t|have|haven['’]t) (?:we|i|you(?! ever| dare)|they)|"
    r"(?:can['’]t|couldn['’]t|should|shouldn['’]t|shall|must|wouldn['’]t|won['’]t) "
    r"(?:we|i|you|they|it|this|that|these|those|there|the)|"
    r"(?:can|could|would|will) (?:i|they|it|this|that|these|those|there|the)|"
    r"(?:can|could|would|will) (?:you|we)(?!.*\b(?:never|always|only|not|don['’]t|avoid|refrain|make sure|ensure|stick to|"
    r"keep|leave|without|instead of|rather than)\b)|"
    r"(?:can|could|would|will) you (?:please )?(?:tell me|explain|find out|show me|(?:check|see) (?:if|whether|why|what))|"
    r"why(?! not| don['’]t (?:we|you))|(?:what|how)(?! about)|who|which|"
    r"(?:when|where) (?:is|are|was|were|do|does|did|can|could|should|must|will|would|shall)"
    r")(?!\w)",
    re.IGNORECASE,
)
"""How a question begins that asks to be told something; "could you never …?" and "why don't you only …?" ask for a rule."""
_QUESTION = re.compile(r"(?<!\bok)(?<!\bokay)(?<!\balright)(?<!\bplease)[?？]\W*$", re.IGNORECASE)
_SEEKS_ASSENT = re.compile(
    r"(?:(?<!\bis )(?<!\bare )(?<!\bbe )(?<!['’]s )(?<!\bit )(?<!\bthis )(?<!\bthe )\b(?:right|correct)"
    r"|[,–—-]\s*(?:oder|verdad|non)|(?<!\w)(?:no|yeah|yes|huh|innit|nicht wahr)|对吧|对吗|是吧|是吗|ですよね)\s*[?？]\W*$",
    re.IGNORECASE,
)
_BIDS = re.compile(
    r"\W*(?:please |pls |just )*(?:never|always|only|don['’]?t|do not|make sure|ensure|avoid|keep|leave|use|stick to|refrain)\b"
    r"|\W*(?:请|不要|别|必须|禁止|务必)",
    re.IGNORECASE,
)
"""How a sentence begins that gives an order, whether or not it then asks for assent."""
_PASTED_LINES = re.compile(
    r"^[^\w\n]{0,3}(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} {1,2}\d{1,2} )?\d\d:\d\d:\d\d\b.*$"
    r'|^[ \t{\[]*"[\w$ .-]+"[ \t]*:[ \t]*(?:["{\[\d-]|true|false|null).*[\]},"][ \t]*$',
    re.MULTILINE,
)
"""Lines that no person writes: of a log, with the time in front, and of JSON."""
_PASTED_ERROR = re.compile(
    r"\W{0,3}(?:(?:[A-Za-z_]\w*\.)*[A-Z]?\w*(?:Error|Exception)(?: ?\[[^\]]*\])?: |(?:error(?:\[\w+\])?|fatal|panic): "
    r"|\[?(?:ERROR|FATAL|DEBUG|TRACE)\b[\]:| ]|\[(?:INFO|WARN|WARNING)\]|npm ERR! "
    r"|[A-Za-z_]{2,}(?:\.\w+)*\.\d+(?:\.\w+)*: |\S+:\d+(?::\d+)?:? (?:error|warning|note|fatal)\b|at \S+ ?\(|[⎿⏺])"
)
"""How programs begin the report of an error: its kind, its place in a file or in a request, its severity."""
_BREAKS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_FENCES = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)


def sentences(text: str) -> tuple[str, ...]:
    """A text's sentences and lines, trimmed, as they stand."""
    return tuple(piece for piece in (part.strip() for part in _BREAKS.split(text) if part) if piece)


def constraint_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a user's text that lay down a rule, verbatim, in order; what was pasted is not the user's voice."""
    spoken = _PASTED_LINES.sub("", _FENCES.sub("\n", text))
    return tuple(sentence for sentence in sentences(spoken) if len(sentence) <= LONGEST_SENTENCE and _rules(sentence))


def _rules(sentence: str) -> bool:
    return _MARKS.search(sentence) is not None and not _PASTED_ERROR.match(sentence) and not _asks(sentence)


def _asks(sentence: str) -> bool:
    """Whether a sentence wants an answer rather than obedience."""
    if _SEEKS_ASSENT.search(sentence):
        return not _BIDS.match(sentence)
    return _QUESTION.search(sentence) is not None and _ASKS_BACK.match(sentence) is not None
