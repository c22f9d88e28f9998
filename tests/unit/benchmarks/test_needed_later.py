"""What agents needed later: which tokens are facts, and which texts hold them."""

import json
from collections.abc import Sequence
from itertools import count

import pytest
from benchmarks.later_facts import (
    NeededFact,
    Shown,
    events_of,
    list_share,
    needed_facts,
    records_of,
    statements_of,
    words_of,
)
from benchmarks.needed_later import (
    WAYS,
    Bm25,
    Context,
    Head,
    before_tail,
    compact,
    found_by,
    ledger_text,
    legal_cut,
    measure,
    recall_of,
    score,
    summarise,
    tokens_of,
)

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.tokens import estimate
from infold.transcripts.record import RecordedSession

_ids = count()


def _id() -> MessageId:
    return MessageId(f"m{next(_ids)}")


def user(text: str) -> tuple[Message, ...]:
    """A request."""
    return (UserMessage(_id(), (TextPart(text),)),)


def said(text: str) -> tuple[Message, ...]:
    """A reply without a call."""
    return (AssistantMessage(_id(), (TextPart(text),)),)


def step(tool: str, output: str = "done", **arguments: str) -> tuple[Message, ...]:
    """A call and its result."""
    call_id = f"call-{next(_ids)}"
    call = AssistantMessage(_id(), (ToolCallPart(call_id, tool, json.dumps(arguments)),))
    return (call, ToolMessage(_id(), (ToolResultPart(call_id, tool, output),)))


def needed(head: Sequence[Message], later: Sequence[Message], **options: str) -> dict[str, NeededFact]:
    """The facts of a history that what followed it needed, by their key."""
    facts = needed_facts(events_of((*head, *later)), len(head), always_shown=options.get("always_shown", ""))
    return {fact.key: fact for fact in facts}


def holds(text: str, fact: NeededFact) -> bool:
    """Whether a checkpoint of this text holds a fact."""
    return Shown.of(records_of(text)).holds(fact)


READ = step("read", "def load_feed(source):\n    retry_limit = 4731\n    return source", path="src/feed/loader.py")


def fact_of_result() -> NeededFact:
    """A name that only the output of a tool had."""
    return needed((*user("Fix it."), *READ), step("edit", path="src/x.py", new="value = retry_limit"))["retry_limit"]


@pytest.mark.parametrize(
    ("text", "used", "keys"),
    [
        ("see src/feed/loader.py", "src/feed/loader.py", {"feed/loader.py"}),
        ("see /home/ada/kites/src/feed/loader.py", "feed/loader.py", {"feed/loader.py"}),
        ("call load_feed", "load_feed", {"load_feed"}),
        ("call loadFeed", "loadFeed", {"loadFeed"}),
        ("set MAXIMUM", "MAXIMUM", {"MAXIMUM"}),
        ("the port is 8123", "open port 8123", {"8123"}),
        ("the port is 8,123", "open port 8123", {"8123"}),
        ("the hunk is 113,27", "the hunk is 113,27", {"113"}),
        ('print "no such feed found"', 'raise "no such feed found"', {"no such feed found"}),
        ('from "./feed-of-kites.js"', 'import "./feed-of-kites.js"', set()),
        ("a plain sentence about loading", "a plain sentence about loading", set()),
        ("the ports are 12 and 8000", "open ports 12 and 8000", set()),
        ("the port is 8123", "sleep 8123", set()),
        ("call load_feed", "call load_feeds", set()),
    ],
)
def test_facts_are_told_by_their_shape(text: str, used: str, keys: set[str]) -> None:
    """A path, a marked name, a number that is meant and a quotation are facts; words, round numbers and chance are not."""
    assert set(needed(user(text), step("bash", command=used))) == keys


def test_fact_that_was_shown_again_is_not_needed() -> None:
    """What a tool or the user shows after the cut, before the call, need not be remembered."""
    use = step("bash", command="grep load_feed")

    assert set(needed(READ, use)) == {"load_feed"}
    assert needed(READ, (*step("bash", "1: load_feed", command="ls"), *use)) == {}
    assert needed(READ, (*user("Look for load_feed."), *use)) == {}


def test_agents_own_words_do_not_show_a_fact() -> None:
    """A reply after the cut that names a fact is written from memory too."""
    assert set(needed(READ, (*said("I look for load_feed."), *step("bash", command="grep load_feed")))) == {"load_feed"}


def test_fact_shown_after_its_use_was_needed() -> None:
    """The result of the call that uses a fact does not count."""
    assert set(needed(READ, step("bash", "load_feed", command="grep load_feed"))) == {"load_feed"}


def test_what_every_request_shows_is_not_needed() -> None:
    """System prompt, system messages and names of tools are never folded."""
    use = step("run_shell", command="grep load_feed run_shell")
    system = (SystemMessage(_id(), (TextPart("load_feed is the entry point"),)),)

    assert needed((*READ, *system, *user("run_shell")), use) == {}
    assert needed(READ, use, always_shown="load_feed is the entry point") == {}


def test_frequent_token_is_not_rare() -> None:
    """A token in more than a tenth of the events is no fact."""
    often = tuple(message for _ in range(8) for message in step("bash", command="run load_feed"))

    assert needed(often, step("bash", command="grep load_feed")) == {}


def test_result_only() -> None:
    """A fact whose every occurrence is in tool results is result-only; one mention elsewhere ends that."""
    use = step("bash", command="grep load_feed")

    assert needed(READ, use)["load_feed"].result_only
    assert not needed((*READ, *said("load_feed is wrong")), use)["load_feed"].result_only
    assert not needed((*READ, *step("bash", command="cat load_feed")), use)["load_feed"].result_only


@pytest.mark.parametrize(
    ("text", "is_held"),
    [
        ("- src/feed/loader.py: edited: retry_limit", True),
        ("- feed/loader.py: load_feed, retry_limit, source, return_value, other", True),
        ("- retry_limit = 4731 when it reads the feed", True),
        ("- retry_limit = 4731", False),
        ("- read src/feed: retry_limit", True),
        ("- src/feed/loader.py: edited\n  - retry_limit", True),
        ("- src/feed/loader.py: edited\n- retry_limit", False),
        ("- retry_limit", False),
        ("- names: load_feed, retry_limit, source, return_value, other", False),
        ("- load_feed retry_limit return_value other_value", False),
        ("- src/feed/loader.py: retry_limits", False),
        ("", False),
    ],
)
def test_fact_counts_with_its_company(text: str, is_held: bool) -> None:
    """A name counts with its file, its command or two more words of its line, and not in a bare list of names."""
    assert holds(text, fact_of_result()) is is_held


@pytest.mark.parametrize(
    ("text", "is_stated"),
    [
        ("- src/feed/loader.py: edited: retry_limit", True),
        ("- src/feed/loader.py: edited [3.0]\n  - retry_limit is 4731", True),
        ("- retry_limit = 4731 when it reads the feed", True),
        ("- The feed is read late — retry_limit is too high in feed/loader.py", True),
        ("- `retry_limit` — the feed loader has it", True),
        ("- `grep retry_limit src/feed` → ok [4.0] — def load_feed(source):", True),
        ("- src/feed/loader.py: edited (2 times) [3.0] — retry_limit = · def load_feed(", False),
        ("- src/feed/loader.py: edited [3.0] — retry_limit = 4731", False),
        ("- src/feed/loader.py: read — retry_limit = 4731", False),
        ("- loader.py — read the feed: retry_limit", False),
        ("- `read src/feed` → ok — retry_limit = 4731 read feed", False),
        ("- read the feed — a note [4.0] — read the feed: retry_limit", False),
        ("- read src/feed: def load_feed( · retry_limit =", False),
        ("- feed/loader.py: load_feed, retry_limit, source, return_value, other", False),
        ("- src/feed/loader.py: edited\n  - retry_limit", False),
        ("- retry_limit = 4731", False),
    ],
)
def test_fact_counts_only_with_its_subject(text: str, is_stated: bool) -> None:
    """By the stricter rule a name in a quoted piece of a line or in a list of names does not count."""
    assert Shown.of(statements_of(text)).holds(fact_of_result()) is is_stated


def test_quotation_in_a_fragment_does_not_count_by_the_stricter_rule() -> None:
    """A quoted text counts word for word in a sentence, not behind a path."""
    head = step("bash", 'fails with "no such feed found"', command="run")
    fact = needed(head, step("edit", new='raise "no such feed found"'))["no such feed found"]

    assert Shown.of(statements_of("error: no such feed found")).holds(fact)
    assert not Shown.of(statements_of("- src/x.py: read [1.0] — no such feed found")).holds(fact)


@pytest.mark.parametrize(
    ("kept", "is_held", "is_stated"),
    [
        (step("edit", path="src/other.py", new="retry_limit"), False, True),
        (step("read", "[cleared]", path="src/feed/loader.py"), False, False),
        (READ, True, True),
        (said("So retry_limit it is."), False, True),
    ],
)
def test_kept_steps_are_in_context(kept: tuple[Message, ...], is_held: bool, is_stated: bool) -> None:
    """A token in the prose, the call or the result of a kept step counts; one in a result that is cleared does not."""
    checkpoint = user("- src/x.py: edited")
    context = Context.of((*checkpoint, *kept))

    assert context.in_context.holds(fact_of_result()) is is_held
    assert context.with_subject.holds(fact_of_result()) is is_stated
    assert context.texts == ("- src/x.py: edited",)
    assert context.tokens == tokens_of(checkpoint) + tokens_of(kept)


def test_two_words_of_the_line() -> None:
    """Two further words of the original line are enough, one is not."""
    head = user("The importer must keep retry_limit below nine.")
    fact = needed(head, step("bash", command="grep retry_limit"))["retry_limit"]

    assert holds("Rules: the importer keeps retry_limit below nine", fact)
    assert not holds("importer: retry_limit", fact)


def test_path_counts_where_something_is_said_of_it() -> None:
    """A path counts with what was done to it, also relative to a folder named elsewhere, and not in a bare list."""
    fact = needed(READ, step("read", path="/home/ada/kites/src/feed/loader.py"))["feed/loader.py"]

    assert holds("- src/feed/loader.py: edited", fact)
    assert holds("Paths are in kites/src/feed/ from here.\n- loader.py: edited", fact)
    assert not holds("- loader.py: edited", fact)
    assert not holds("read: a/one.py, src/feed/loader.py, b/two.py, c/three.py", fact)
    assert not holds("- src/feed/loader.py", fact)


def test_quotation_counts_word_for_word() -> None:
    """A quoted text is its own company, however its lines are broken."""
    head = step("bash", 'fails with "no such feed found"', command="run")
    fact = needed(head, step("edit", new='raise "no such feed found"'))["no such feed found"]

    assert holds("error: no such\nfeed found", fact)
    assert not holds("error: no feed found", fact)


def test_handles_are_no_numbers() -> None:
    """infold's own handles are not taken for figures of the history."""
    fact = needed(user("the port is 8123"), step("bash", command="open port 8123"))["8123"]

    assert holds("- the port is 8123 [2.0]", fact)
    assert not holds("- the port is open [8123.0]", fact)


def test_list_share() -> None:
    """The share of bare lists counts runs of four names or more, and lines with a single name."""
    assert list_share("The user wants the feed ported, and nothing else.") == 0
    assert list_share("- load_feed\n- retry_limit") > 0.7
    assert 0.5 < list_share("src/x.py: load_feed, retry_limit, other_name, last_name") < 0.9


def test_json_is_no_list_of_names() -> None:
    """Quoted names are a list, the fields of an object are not; a long line costs no more than its length."""
    assert list_share("names: 'load_feed', 'retry_limit', 'other_name', 'last_name'") > 0.5
    assert list_share('the feed says {"load_feed":1,"retry_limit":2,"other_name":3,"last_name":4} in all') == 0
    assert list_share("ab1" * 40_000 + " is long") == 0


@pytest.mark.parametrize(
    "arguments", ["", "null", "[]", '{"path": null}', '{"a": [true, 12.5, {}]}', "{broken load_feed"]
)
def test_odd_arguments_are_read(arguments: str) -> None:
    """Arguments that are no object, or no JSON, are text."""
    call = AssistantMessage(_id(), (ToolCallPart("odd", "bash", arguments),))

    assert set(needed(READ, (call,))) == ({"load_feed"} if "load_feed" in arguments else set())


def test_query_has_the_words_of_the_use_without_the_token() -> None:
    """Recall is asked with the later call: its file and the lines around, never with the fact or its path."""
    use = step(
        "edit", path="src/sync/client.py", new="first line\nsession.open(load_feed(address))\nlast line\nfar away"
    )
    query = needed(READ, use)["load_feed"].query

    assert "load_feed" not in query
    assert {"sync", "client", "first", "session", "address", "last"} <= words_of(query)
    assert "far" not in words_of(query)


def history() -> tuple[Message, ...]:
    """A session of some ten thousand tokens whose last steps use what its first ones showed."""
    steps = [
        step(
            "read",
            f"setting_{n} = {n}731\n" + f"the {n}. part of the feed has to be ported soon. " * 40,
            path=f"src/p{n}.py",
        )
        for n in range(40)
    ]
    uses = [step("edit", path=f"src/q{n}.py", new=f"keep setting_{n} for the feed of part {n}") for n in range(4)]
    return (*user("Port the feed."), *(message for one in (*steps, *uses) for message in one))


@pytest.mark.slow
def test_infold_and_the_baselines_are_measured() -> None:
    """One session gives a measurement for each cut that has facts, with every way, its size and its searches."""
    measured = list(measure("t", RecordedSession("s", history())))

    assert measured
    for one in measured:
        assert set(one.tokens) == set(WAYS)
        assert max(one.tokens[way] for way in one.lists) <= one.budget_tokens
        assert any(fact.recalled for fact in one.facts)
        assert all("whole history" in fact.held & fact.stated for fact in one.facts)
    assert {row.over_room for row in summarise(measured).with_subject} == {0, None}


@pytest.mark.slow
def test_measurement_is_deterministic() -> None:
    """The same session gives the same figures."""
    session = RecordedSession("s", history())

    assert list(measure("t", session, quick=True)) == list(measure("t", session, quick=True))


def test_short_session_is_not_measured() -> None:
    """A history below 8,000 tokens gives nothing."""
    assert list(measure("t", RecordedSession("s", READ))) == []


@pytest.mark.slow
def test_session_is_folded_and_recalled() -> None:
    """Everything before the cut is folded into the checkpoint, within its budget, and recall finds it."""
    messages = history()
    fact = needed(messages[:81], messages[81:])["setting_3"]
    compacted = compact(messages[:81], [20, 81], 1_500)

    assert "Port the feed." in "".join(compacted.context.texts)
    assert compacted.context.tokens == tokens_of(before_tail(compacted.session)) <= 1_500
    assert [logged.message.id for logged in compacted.session.log.live][-1:] != [messages[80].id]
    assert found_by(recall_of(compacted.session), fact)
    assert found_by(Bm25(events_of(messages[:81])).ask, fact)
    assert not found_by(lambda _: "nothing", fact)


def test_cut_separates_no_call_from_its_result() -> None:
    """A cut falls before a message whose earlier calls all have their results."""
    messages = (*user("a"), *step("bash", "x" * 4_000, command="ls"), *user("b"))

    assert legal_cut(messages, 0.1) == 3
    assert legal_cut(messages, 1.0) == 4


def test_ledger_has_its_sections_within_the_room() -> None:
    """The plain ledger lists user text, files and commands, newest first."""
    head = Head((), events_of(history()), 10_000)
    text = ledger_text(head.events, 300)

    assert text.index("User") < text.index("- Port the feed.") < text.index("Files") < text.index("src/q3.py")
    assert "src/p0.py" not in text
    assert 200 < estimate(text, "features") <= 300


def test_score_is_a_mean_over_transcripts() -> None:
    """Each transcript counts once, those with few facts together; the interval is the same each time."""
    found = score([[True] * 10, [False] * 100, [True], [False]])

    assert (found.mean, found.facts, found.transcripts) == (50.0, 112, 4)
    assert found.low <= 50 <= found.high
    assert score([[True] * 10]).low == 100
