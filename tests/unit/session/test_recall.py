"""Recall by words and by handles, within its tokens."""

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from infold.core.entries import MessageEntry
from infold.core.messages import Message, SessionId
from infold.core.policy import Ruler
from infold.core.tokens import estimate
from infold.errors import UnknownReference, UnknownSession, UsageError
from infold.ports import SessionKey
from infold.session.recall import MOST_HANDLES, recall
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, numbered, replies, result, user

KEY = SessionKey("", SessionId("s"))
CODE = "def load():\n    return {\n    }\n\n\ndef save():\n    return {\n    }\n"
LOG = "".join(f"step {number}: built target {number * 7}\n" for number in range(900))
ENTRY = re.compile(r'\[… ([\d,]+) characters left out; read on with "(\d+\.\d+)\+(\d+)"')


def stored(*drafts: Message) -> MemoryStore:
    """A store with one session of these messages, numbered from 0."""
    store = MemoryStore()
    store.append(KEY, [MessageEntry(message) for message in numbered(drafts)], expected=0)
    return store


@pytest.fixture
def store() -> MemoryStore:
    """A session with a short file (2.0), a long log (4.0) and a few words."""
    return stored(
        user("Port the loader. Never touch vendor/."),
        calls("read", arguments='{"path": "src/load.py"}'),
        result(output=CODE),
        calls("bash", arguments='{"command": "make all"}'),
        result(output=f"{LOG}the harbour key is quay-4711\n{LOG}"),
        replies("The loader is ported."),
    )


def test_words_find_the_passage(store: MemoryStore) -> None:
    """B6: of a long part the lines around the words are shown, under its handle, with how to read the rest."""
    found = recall(store, KEY, "harbour key")

    assert found.startswith("[4.0] bash command: make all")
    assert "the harbour key is quay-4711" in found
    assert "step 450:" not in found
    assert found.endswith("[passages only; ask for a handle to read its part]")


def test_a_handle_reads_its_part_as_it_was(store: MemoryStore) -> None:
    """B6: blank lines, indents and lines that occur twice are all there."""
    assert recall(store, KEY, "2.0") == f"[2.0] read path: src/load.py\n{CODE}"


@pytest.mark.parametrize(
    "query", ["2.0 0.0", "2.0, 0.0", " [2.0] , [0.0]\n", '"2.0";`0.0`', "recall 2.0, 0.0", "2.0 0.0 2.0"]
)
def test_several_parts_are_read_at_once(store: MemoryStore, query: str) -> None:
    """B6: handles apart by spaces or commas, however they are dressed, give their parts in that order, each once."""
    assert recall(store, KEY, query) == (
        f"[2.0] read path: src/load.py\n{CODE}\n\n[0.0]\nPort the loader. Never touch vendor/."
    )


@pytest.mark.parametrize("query", ["99.0", "2.7", "2.0 99.0", "99.0: words", f"{'9' * 30}.0"])
def test_an_unknown_handle_is_told(store: MemoryStore, query: str) -> None:
    """B6: a handle that names nothing is an error, also beside others that do."""
    with pytest.raises(UnknownReference, match="handle from a search or a stub"):
        recall(store, KEY, query)


def test_too_much_at_once_is_told(store: MemoryStore) -> None:
    """B6: more parts than an answer can hold, and reading on behind the end, are errors that say what would be right."""
    with pytest.raises(UsageError, match="ask for 20 at most"):
        recall(store, KEY, " ".join(f"{number}.0" for number in range(MOST_HANDLES + 1)))
    with pytest.raises(UsageError, match=f"ends at character {len(CODE)}"):
        recall(store, KEY, "2.0+5000")


def test_tenants_share_nothing(store: MemoryStore) -> None:
    """B28: the same handle of another tenant names nothing, and its words find nothing."""
    with pytest.raises(UnknownSession):
        recall(store, SessionKey("other", KEY.session_id), "2.0")
    assert "quay" not in recall(store, SessionKey("other", KEY.session_id), "harbour key")


@pytest.mark.parametrize("query", ["loader version 2.0", "2.0 loader", "127.0.0.1: loader", "loader, 4.0"])
def test_numbers_among_words_are_words(store: MemoryStore, query: str) -> None:
    """B6: a query that holds anything but handles is a search."""
    assert "The loader is ported." in recall(store, KEY, query)


def test_a_long_part_shows_its_beginning_and_end(store: MemoryStore) -> None:
    """B6: what is left out between whole lines is counted, and the answer says how to get it."""
    shown = recall(store, KEY, "4.0", budget_tokens=300)

    assert shown.startswith("[4.0] bash command: make all\nstep 0: built target 0\nstep 1: built target 7\n")
    assert shown.endswith("step 899: built target 6293\n")
    assert re.search(
        r'\n\[… [\d,]+ characters left out; read on with "4\.0\+\d+", .* "4\.0: words"\]\nstep 8\d\d', shown
    )


def pages(read: Callable[[str], str], handle: str) -> list[str]:
    """What is shown of a part when one reads on until its end; of the first page its beginning alone."""
    shown, asked, start = list[str](), handle, 0
    while True:
        page = read(asked).partition("\n")[2]
        note = ENTRY.search(page)
        if note is None:
            return [*shown, page]
        assert int(note[3]) > start
        start, asked = int(note[3]), f"{note[2]}+{note[3]}"
        shown.append(page[: note.start() - 1])


texts = st.text(st.sampled_from("ab \n你カ한1"), min_size=1, max_size=3_000)


@settings(max_examples=40, deadline=None)
@given(texts, st.integers(120, 400))
@example("x" * 3_000, 120)
@example("word\n" * 600, 120)
def test_reading_on_comes_to_the_end(text: str, budget: int) -> None:
    """B6: page by page a part of any shape is read whole: each page begins where the one before it ended."""
    store = stored(user("Go."), calls("bash"), result(output=text))
    read = pages(lambda query: recall(store, KEY, query, budget_tokens=budget), "2.0")

    assert "".join(read).replace("\n", "") == text.replace("\n", "")


def test_one_part_can_be_searched(store: MemoryStore) -> None:
    """B6: a handle with a colon and words finds passages of that part alone."""
    assert "quay-4711" in recall(store, KEY, "4.0: harbour key")
    assert "step 450:" in recall(store, KEY, "[4.0]: 450 3150")
    assert recall(store, KEY, "2.0: harbour key").startswith("Nothing")


def test_small_parts_are_whole_beside_a_large_one(store: MemoryStore) -> None:
    """B6: the room that small parts do not need goes to the large one."""
    shown = recall(store, KEY, "4.0 2.0", budget_tokens=600)

    assert shown.endswith(f"\n\n[2.0] read path: src/load.py\n{CODE}")
    assert estimate(shown, "features") > 500


def test_too_little_room_for_all_asks_for_one() -> None:
    """B6: where a part gets too little room for any of its text, the note names it from its beginning."""
    store = stored(*(draft for _ in range(9) for draft in (calls("bash"), result(output=LOG))))
    shown = recall(store, KEY, " ".join(f"{number}.0" for number in range(1, 18, 2)), budget_tokens=300)

    assert 'read on with "1.0", search' in shown


def test_the_best_lines_are_shown_however_little_room_there_is() -> None:
    """B6: where a passage does not fit, its lines with most of the words in them do."""
    filler = "nothing of any interest stands on this line of the log"
    lines = [f"{filler} {number}" for number in range(14)]
    lines[9] = "the retry limit is 17"
    store = stored(user("\n".join(lines)))

    assert "the retry limit is 17" in recall(store, KEY, "retry limit", budget_tokens=40)
    assert recall(stored(user(f"{filler} " * 7)), KEY, "interest", budget_tokens=40).startswith("[0.0]\nnothing of any")


def test_what_was_not_shown_is_named() -> None:
    """B6: parts that were found but have no room are told by their handles."""
    store = stored(*(user(f"kite {number} " + f"flew over the hill {number} times " * 25) for number in range(6)))

    assert re.search(
        r"\[also found in \d\.0(, \d\.0)+; ask for a handle to read its part\]",
        recall(store, KEY, "kite", budget_tokens=400),
    )


def test_nothing_found_is_said(store: MemoryStore) -> None:
    """B6: an answer without a hit tells the model what to try, and a whole part shown needs no note."""
    assert recall(store, KEY, "zebra").startswith("Nothing of this session mentions 'zebra'; try")
    with pytest.raises(UsageError, match="the query is empty; give words"):
        recall(store, KEY, " ")
    assert recall(store, KEY, "ported") == "[5.0]\nThe loader is ported."


def test_all_parts_are_searched() -> None:
    """B40: the one part that answers is found among hundreds that hold the query's common words."""
    told = [user(f"the harbour of town {number} has a key and a quay, and a harbour master") for number in range(300)]
    told[7] = user("the harbour key is quay-4711")

    assert "quay-4711" in recall(stored(*told), KEY, "the harbour key is")


def test_results_come_before_what_the_agent_said_of_them() -> None:
    """B40: of two texts that answer alike the result is shown first, the agent's own text after it."""
    told = [user(f"wish {number}: {'some words about it ' * 20}") for number in range(40)]
    run = (calls("bash", arguments='{"command": "x"}'), result(output="port 8443 is open"))
    shown = recall(stored(*told, *run, replies("port 8443 is open now")), KEY, "port 8443")

    assert shown.index("[41.0]") < shown.index("[42.0]")


def test_many_other_parts_are_counted() -> None:
    """B40: of many parts that have no room the best are named, the others counted."""
    store = stored(*(user(f"kite {number} " + f"flew over the hill {number} times " * 25) for number in range(60)))

    assert re.search(
        r"\[also found in (\d+\.0, ){11}\d+\.0 and \d+ more; ask", recall(store, KEY, "kite", budget_tokens=500)
    )


def test_of_equals_the_newest_comes_first() -> None:
    """B6: two runs of one command: the later one is meant."""
    runs = [(calls("bash", arguments='{"command": "make"}'), result(output=f"built kite {n} times")) for n in (1, 2)]
    shown = recall(stored(*(draft for run in runs for draft in run)), KEY, "built kite")

    assert shown.index("built kite 2") < shown.index("built kite 1")


@pytest.mark.parametrize("tool", ["recall", "mcp__infold__recall"])
def test_recall_does_not_find_itself(tool: str) -> None:
    """B6: what was recalled before is not found in place of what it quotes, unless nothing else is there."""
    asked = calls(tool, arguments='{"query": "harbour key"}')
    store = stored(
        user("The harbour key is quay-4711."), asked, result(output="[0.0] harbour key is quay-4711; lost once")
    )

    assert "[2.0]" not in recall(store, KEY, "harbour key")
    assert "[2.0]" in recall(store, KEY, "lost once")
    assert "lost once" in recall(store, KEY, "2.0")


RULES: list[Ruler] = ["features", "round", "ceil", lambda text: len(text.split()) * 3, len]
words = st.text(st.sampled_from("ab_/.: \nÄ你好カ한1,"), max_size=400)
queries = words.filter(str.strip) | st.sampled_from(
    ["0.0", "1.0, 2.0", "0.0 1.0 2.0", "1.0: a b", "2.0+1", "recall 0.0"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(words, min_size=3, max_size=8), queries, st.integers(0, 300), st.sampled_from(RULES))
def test_no_answer_is_over_its_budget(texts: list[str], query: str, budget: int, rule: Ruler) -> None:
    """B6: whatever is asked of whatever session, an answer keeps to its tokens by the rule, and is always the same."""
    store = stored(*(user(f"begin {text} end") for text in texts))
    answers = [recall(store, KEY, query, budget_tokens=budget, rule=rule) for _ in range(2)]

    assert estimate(answers[0], rule) <= budget
    assert answers[0] == answers[1]
