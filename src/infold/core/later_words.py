"""Find what the user said later about the same thing.

Sentences of the user that share rare terms are placed next to each other. Whether the later one takes the earlier one
back, narrows it, changes a value or only mentions it is for the reader to decide. A term is a word without its ending,
a name or a path, never a bare number.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, wraps
from math import log
from typing import TypeVar

from msgspec import Struct

MOST_TERMS, MOST_RULES, MOST_REMARKS, MOST_PAIRED, MOST_COMMON = 12, 32, 16, 4, 64
"""What one sentence is compared by and with: its rarest terms; for each the newest rules and the newest other sentences
that have it; how many of these it is placed next to; and in how many sentences a term may be that leads to one that is not a
rule."""

MOST_REMEMBERED, MOST_TEXTS, LONGEST_TEXT = 4_096, 1_024, 4_000
"""Sentences and whole texts for which it is remembered what they say, since each fold asks about the same ones, and the
characters of the longest text: longer ones would take too much memory."""

LEAST_LIFTED, LEAST_RULED, LEAST_SHARED = 0.15, 0.25, 0.33
"""Share of what an earlier sentence is about that a later one must have: to be placed next to a rule with words that lift
something, next to a rule with any words, and next to any other sentence."""

FEW_TERMS = 2
"""A sentence with more terms than this that states no rule must share two of them."""

_LIFTS = re.compile(
    r"(?<![\w-])(?:no longer (?:need|have|has|appl|valid|in force|necessary|required|forbidden|matter|count|hold|must|banned)|"
    r"not .{0,60}\bany ?more|forget (?:about|what|the|that|my|it)|scratch (?:that|what)|never ?mind|no need|"
    r"(?:ignore|drop|scrap|disregard) (?:the|that|my|what) .{0,40}(?:rule|instruction|restriction|constraint|ban|said|limit)|"
    r"revoke|retract|withdraw|i lift|take back|waive|(?:is|are) (?:lifted|void|obsolete|revoked|cancelled|withdrawn|over)|"
    r"(?:is|are) (?:now )?(?:allowed|fine|ok|okay|permitted)|"
    r"nicht mehr|gilt nicht|vergiss|aufgehoben|hinfällig|freigegeben|nehme .{1,60} zurück|"
    r"(?:wieder|jetzt) (?:erlaubt|in ordnung)|"
    r"(?:ne |n['’]).{1,40} plus|oublie|annulée?|levée?|ya no|olvida|anulad[ao]|sin efecto|cancelad[ao]|"
    r"больше не|отмен\w+|забудь|снят[оа]?|не действует|"
    r"you (?:can|may|are allowed to|are free to)|(?:it|that)['’]?s? (?:is )?(?:ok|okay|fine|allowed)|feel free|"
    r"(?:is|are) optional|go ahead|stop \w+ing|from (?:now|here) on|after all|can go|"
    r"du (?:darfst|kannst)|(?:darfst|kannst) du|(?:kann|können) jetzt|ab jetzt|ab sofort|doch|ruhig|"
    r"inutile|vas-y|tu peux|vous pouvez|désormais|finalement|puedes|a partir de ahora|можно|можешь|теперь)(?![\w-])"
    r"|n['’]t .{0,60}\bany ?more\b"
    r"|不再|取消|作废|撤销|撤回|忘掉|忘记|不用再|不必再|无需再|解除|可以|现在能|改为|改成|允许|不限|也行|没关系|不用|随意"
    r"|取り消|忘れて|なくても?(?:いい|よい|良い|構)|もう.{0,30}(?:ない|なくて|ありません)|無効"
    r"|ていい|てよい|ても(?:いい|よい|良い|構|かま|大丈夫)|構いません|かまいません|これからは|今後は"
    r"|더\s?이상|취소|잊어|철회|해제|않아도|안 해도|필요\s?없|도\s?(?:됩|돼|되|괜찮|좋)|이제",
    re.IGNORECASE,
)
"""Words that may take a rule back, or permit what was forbidden."""

_REMINDS = re.compile(
    r"(?<![\w-])(?:(?:don['’]?t|do not|never|not to) forget|vergiss (?:bitte )?(?:nicht|auch nicht)|n['’]oublie[zs]? pas|"
    r"no (?:te |se |lo )?olvid\w+|не забуд\w*|не забыва\w*)|(?:别|不要|勿)忘|忘れないで|忘れずに|잊지\s?(?:마|말)",
    re.IGNORECASE,
)
"""Words that remind of something: they hold a word that lifts, and lift nothing."""

_TOKEN, _JOINT = re.compile(r"[\w/.@~-]+"), re.compile(r"[_/.@~-]")
"""Runs without blanks, and what makes one a path, a file name or an identifier."""

_LETTER = re.compile(r"[^\W\d_]")

_QUESTION = re.compile(r"[?？]\W*\Z")

_FIGURE = re.compile(r"\d")

_WORDS = re.compile(r"[぀-ヿ㐀-鿿]+|[가-힣]+|[^\W\d_]{3,}")

_GENERAL_WORDS = (
    "about after again before all also and any are but can could does don for forget from had has have into longer may "
    "more must need never not now only our please rule should that the them then there they this use was were "
    "will with would you your aber auch auf aus das dass dem den der des die doch ein eine einen für gilt ich ist "
    "kann mehr mit nicht noch nur oder regel sich sie und von wenn wird les une pour dans est pas plus que qui "
    "sur tous vous règle las los una para con por regla como это как что для при так все правило "
    "alone away hands keep leave off out stay finger lass ruhe weg laisse tranquille "
    "always toujours immer siempre jamais niemals nunca what when where which who why how said say just want "
    "let make sure fine okay first here like some such than too very back don't isn't it's i'm "
    "darf darfst jetzt nimm mach peux faire fait avec mon sans puedes "
)
"""Words that say nothing about what a sentence is about."""

_STEM = 5

_GENERAL_TERMS = frozenset(word[:_STEM] for word in _GENERAL_WORDS.split())


Found = TypeVar("Found")


def remember(most: int) -> Callable[[Callable[[str], Found]], Callable[[str], Found]]:
    """Remember what a pure function finds in that many texts, unless they are long."""

    def remembering(read: Callable[[str], Found]) -> Callable[[str], Found]:
        known = lru_cache(most)(read)

        @wraps(read)
        def recall(text: str) -> Found:
            return known(text) if len(text) <= LONGEST_TEXT else read(text)

        return recall

    return remembering


@remember(MOST_REMEMBERED)
def may_lift(sentence: str) -> bool:
    """Return whether a sentence has words that may take something back or permit it; a reminder has none."""
    return _LIFTS.search(_REMINDS.sub("", sentence)) is not None and re.search(r"[?？]\W*\Z", sentence) is None


@remember(MOST_REMEMBERED)
def terms_of(sentence: str) -> frozenset[str]:
    """Return what a sentence is about: its words without their endings (pairs of characters where no spaces stand
    between words), and whole names and paths."""
    lower = sentence.lower()
    names = (token.strip("/.-~") for token in _TOKEN.findall(lower))
    terms = {name for name in names if len(name) > 3 and _JOINT.search(name) and _LETTER.search(name)}
    for word in _WORDS.findall(lower):
        if "가" <= word[0] <= "힣":
            terms.add(word[:2])
        elif "぀" <= word[0] <= "鿿":
            terms.update(pair for at in range(len(word) - 1) if max(pair := word[at : at + 2]) > "ん")
        elif word[:_STEM] not in _GENERAL_TERMS:
            terms.add(word[:_STEM])
    return frozenset(terms)


def _is_telling(term: str) -> bool:
    """Return whether a term alone shows what is meant: at least four letters, or a script without spaces."""
    return len(term) > 3 or term[0] > "぀"


@lru_cache(MOST_REMEMBERED)
def two_to_keep(sentence: str, later: tuple[str, ...]) -> tuple[str, ...]:
    """Return which later words stand next to a sentence, in their order: the newest, and the newest that may take it back
    or give another figure, so that a remark does not push these out.

    Words that share less than half as many terms with the sentence as others do not replace these.
    """
    about, has_figure = terms_of(sentence), _FIGURE.search(sentence) is not None
    shared = {words: len(about & terms_of(words)) for words in later}
    changing = [words for words in shared if may_lift(words) or (has_figure and _FIGURE.search(words))]
    kept: list[str] = []
    for choices in (list(shared), changing):
        most = max((shared[words] for words in choices), default=0)
        kept += [words for words in choices if 2 * shared[words] >= most][-1:]
    return tuple(words for words in shared if words in kept)


class Sentence(Struct, frozen=True, gc=False):
    """A sentence of the user, the handle of the part it is from, and whether it states a rule."""

    handle: str
    text: str
    is_rule: bool


class SentenceIndex:
    """The user's sentences so far, by their terms.

    `known` gives those of before, once one is taken in. `compared` counts the sentences looked at, which grows in
    proportion to the sentences taken in.
    """

    def __init__(self, known: Callable[[], Iterable[Sentence]] = tuple) -> None:
        self.compared = 0
        self.known = known
        self._sentences: dict[str, Sentence] = {}
        self._terms: dict[str, frozenset[str]] = {}
        self._rules: dict[str, list[str]] = {}
        self._remarks: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._weights: dict[str, float] = {}
        self._wholes: dict[str, float] = {}
        self._message = ""
        self._new: list[Sentence] = []

    def take(self, sentence: Sentence) -> tuple[Sentence, ...]:
        """Take in the user's next sentence; return those of earlier messages that it is about, nearest first, at most a few."""
        if _QUESTION.search(sentence.text) and not sentence.is_rule:
            return ()
        message = sentence.handle.partition(".")[0]
        if message != self._message:
            for one in (*self.known(), *self._new):
                self._add(one)
            self.known, self._message, self._new = tuple, message, []
            self._weights.clear()
            self._wholes.clear()
        self._new.append(sentence)
        return self.earlier(sentence.text)

    def _add(self, sentence: Sentence) -> None:
        text = sentence.text
        if text in self._sentences or (_QUESTION.search(text) and not sentence.is_rule):
            return
        self._sentences[text] = sentence
        self._terms[text] = terms_of(text)
        lists, most = (self._rules, MOST_RULES) if sentence.is_rule else (self._remarks, MOST_REMARKS)
        for term in self._terms[text]:
            self._counts[term] = self._counts.get(term, 0) + 1
            same = lists.setdefault(term, [])
            same.append(text)
            if len(same) > 2 * most:
                del same[:most]

    def earlier(self, text: str) -> tuple[Sentence, ...]:
        """Return the sentences of earlier messages that a text is about, nearest first, at most a few."""
        terms = sorted(term for term in terms_of(text) if term in self._counts)
        found: dict[str, None] = {}
        for term in sorted(terms, key=lambda term: self._counts[term])[:MOST_TERMS]:
            found.update(dict.fromkeys(self._rules.get(term, ())[-MOST_RULES:]))
            if self._counts[term] <= MOST_COMMON:
                found.update(dict.fromkeys(self._remarks.get(term, ())[-MOST_REMARKS:]))
        if not found:
            return ()
        self.compared += len(found)
        least = LEAST_LIFTED if may_lift(text) else LEAST_RULED
        weights = {term: self._weight_of(term) for term in terms}
        telling = frozenset(filter(_is_telling, terms))
        shares = {one: self._share(self._sentences[one], weights, telling) for one in found if one != text}
        near = [one for one in shares if shares[one] >= (least if self._sentences[one].is_rule else LEAST_SHARED)]
        return tuple(self._sentences[one] for one in sorted(near, key=lambda one: -shares[one])[:MOST_PAIRED])

    def _share(self, sentence: Sentence, weights: Mapping[str, float], telling: frozenset[str]) -> float:
        """Return how much of what a sentence is about is in terms with these weights; rare ones count for more."""
        about = self._terms[sentence.text]
        if telling.isdisjoint(about):
            return 0.0
        shared = [weight for term, weight in weights.items() if term in about]
        fewest = 1 if sentence.is_rule or len(about) <= FEW_TERMS else 2
        if len(shared) < fewest:
            return 0.0
        whole = self._wholes.get(sentence.text)
        if whole is None:
            self._wholes[sentence.text] = whole = self._weight(about)
        return sum(shared) / whole

    def _weight(self, terms: Iterable[str]) -> float:
        return sum(self._weight_of(term) for term in sorted(terms))

    def _weight_of(self, term: str) -> float:
        """Return what a term counts for until the next message."""
        weight = self._weights.get(term)
        if weight is None:
            self._weights[term] = weight = log(1 + (1 + len(self._sentences)) / self._counts[term])
        return weight
