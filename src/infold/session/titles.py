"""Titles: of a user message and of a session, from the words themselves or from a model's answer.

A model's title is an entry of the log; without one, code makes a title of what the user wrote, in whatever language that is.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain

from infold.core.entries import Entry, MessageEntry, Title
from infold.core.messages import FilePart, Message, MessageId, TextPart, UserMessage, is_genuine_user
from infold.formats.harness_text import ends_examples
from infold.ports import SessionKey, Store

LONGEST, LONGEST_TOLD = 60, 100
"""Characters of a title that code makes, and of one that a model gave; beyond, it ends with an ellipsis."""


FIRST_ENTRIES = 16
"""How many of a session's first entries a listing reads: who titles a session does so after its first turn at the latest."""


MOST_READ, MOST_OF_LINE = 20_000, 1_000
"""Characters of a text, and of one of its lines, that are looked at for a title."""


SESSION = MessageId("")
"""Under what the title of the whole session stands."""


_FENCE = re.compile(r"^(`{3,}+|~{3,}+)[^\n]*+\n(?P<code>.*?)(?:^\1[`~]*\s*$|\Z)", re.MULTILINE | re.DOTALL)


_MARKS = re.compile(r"^\s*(?:(?:#{1,6}|>|[-*+•]|\d{1,3}[.)])\s+|\[[ xX]\]\s+)+")


_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^)\n]{0,500}\)")


_TAG = re.compile(r"</?[A-Za-z][\w-]*(?:\s[^<>\n]*)?/?>")


_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|~~)(?=\S)(.+?)(?<=\S)\1(?!\w)")


_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)\b[^>]*>.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)


_THOUGHT_END = re.compile(r"\A.*</(?:think|thinking|thought|reasoning)\s*>", re.IGNORECASE | re.DOTALL)


_LABEL = re.compile(r"^title\s*[:：]\s*", re.IGNORECASE)


PAIRS = ('""', "''", "``", "“”", "‘’", "„“", "«»", "‹›", "「」", "『』", "《》", "【】")
"""What a title may stand between without being a quotation."""


LOOSE = " \t,;:，；：、-–—"
"""What no title ends with."""


JOINERS = "\u200d\ufe0f\ufe0e"
"""What ties two characters into one that is seen."""


def title_from_text(text: str) -> str:
    """Return a title made of a text: its first line with letters or digits, without markup; empty if there is none."""
    prose = text[:MOST_READ].replace("\r", "\n")
    code = "\n".join(found["code"] for found in _FENCE.finditer(prose))
    lines = chain(_lines(_FENCE.sub("\n", prose)), _lines(code))
    return next((_shortened(line, LONGEST) for line in lines if _says_something(line)), "")


def title_from_reply(reply: str) -> str:
    """A title as a model answered it: without its thoughts, the first line that is not empty, without quotes around it."""
    said = _THOUGHT_END.sub("", _THOUGHT.sub("", reply[:MOST_READ]))
    line = next((line for line in map(_plain, said.splitlines()) if line), "")
    return _shortened(_unquoted(_LABEL.sub("", line)), LONGEST_TOLD)


def message_title(message: Message) -> str:
    """A title made of a message's own words, or else of the names of what was attached."""
    own = [
        part.text for part in message.parts if isinstance(part, TextPart) and not part.synthetic and not part.ignored
    ]
    files = [part.name or part.media_type for part in message.parts if isinstance(part, FilePart)]
    return title_from_text("\n".join(own)) or title_from_text(", ".join(files))


def titles_of(entries: Iterable[Entry]) -> dict[MessageId, str]:
    """The titles that entries, oldest first, give: by message, the session's own under the empty id; the last one holds."""
    return {entry.message_id: entry.text for entry in entries if isinstance(entry, Title)}


def title_of(store: Store, key: SessionKey) -> str:
    """A session's title for a listing, from its first entries alone, however long it is.

    What it was titled there, or else what its first user message says, after an agent's examples if it opens with any; empty
    if the user said nothing.
    """
    entries = [entry for _, entry in store.newest_first(key, before=FIRST_ENTRIES)][::-1]
    given = titles_of(entries).get(SESSION, "")
    messages = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    begin = max((at for at, message in enumerate(messages) if closes_examples(message)), default=0)
    said = filter(is_genuine_user, messages[begin:])
    return given or next(filter(None, map(message_title, said)), "")


def closes_examples(message: Message) -> bool:
    """Return whether a message closes the examples with which an agent opens a conversation."""
    texts = (part.text for part in message.parts if isinstance(part, TextPart))
    return isinstance(message, UserMessage) and any(map(ends_examples, texts))


# Lines.


def _lines(text: str) -> Iterator[str]:
    return map(_plain, text.split("\n"))


def _plain(line: str) -> str:
    """A line without markup and without what cannot be seen."""
    line = _TAG.sub(" ", _LINK.sub(r"\1", _MARKS.sub("", line[:MOST_OF_LINE])))
    line = _EMPHASIS.sub(r"\2", _EMPHASIS.sub(r"\2", line)).replace("`", "")
    seen = (character if character.isprintable() or character in JOINERS else " " for character in line)
    return " ".join("".join(seen).split())


def _says_something(line: str) -> bool:
    """Whether there is a letter or a digit in it; a picture says something too."""
    return any(character.isalnum() or unicodedata.category(character) == "So" for character in line)


def _unquoted(line: str) -> str:
    while len(line) > 1 and line[0] + line[-1] in PAIRS:
        line = line[1:-1].strip()
    return line


def _shortened(line: str, most: int) -> str:
    """At most that many characters, ending with a whole word where words have spaces between them."""
    line = line.rstrip(LOOSE)
    if len(line) <= most:
        return line
    end = most - 1
    while end > 1 and _goes_on(line[end - 1], line[end]):
        end -= 1
    space = line.rfind(" ", 0, end + 1)
    return line[: space if space >= most // 2 else end].rstrip(LOOSE) + "…"


def _goes_on(before: str, after: str) -> bool:
    """Whether two characters are seen as one."""
    return after in JOINERS or before == JOINERS[0] or bool(unicodedata.combining(after))
