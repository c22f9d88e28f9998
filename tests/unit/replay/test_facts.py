"""The facts of a history at an end point."""

from infold.replay.facts import (
    MOST_OF_A_KIND,
    DividedHistory,
    HistoryEvent,
    HistoryFact,
    Speaker,
    facts_of,
    remove_answers,
)


def event(number: int, speaker: Speaker, text: str, **arguments: object) -> HistoryEvent:
    """An event; a call has arguments."""
    return HistoryEvent(number, f"{number}.0", speaker, text, "edit" if arguments else "", arguments)


def result(number: int, text: str, call: HistoryEvent) -> HistoryEvent:
    """A result of a call."""
    return HistoryEvent(number, f"{number}.0", "result", text, "edit", call=call)


READ = event(1, "call", "edit\nsrc/a.py", path="src/a.py")
HEAD = (
    event(0, "user", "Please never push to main. Have a look at the parser."),
    READ,
    result(2, "the helper loadSettings reads conf/app.toml with limit 40961 of bytes", READ),
    event(3, "agent", "The commit a8f68ce has the parser. The window size is 8192 tokens here."),
)


def named(facts: tuple[HistoryFact, ...], answer: str) -> HistoryFact:
    """The fact with that answer."""
    return next(fact for fact in facts if answer in fact.answers)


def test_what_only_a_result_told_and_was_used_is_a_set_of_its_own() -> None:
    """Names, paths and numbers of tool output count if the agent used them afterwards."""
    later = (
        event(9, "agent", "Now I call loadSettings from the helper."),
        event(10, "call", "edit\npath: conf/app.toml", path="conf/app.toml"),
        event(11, "agent", "The limit of 40961 bytes holds."),
    )
    facts = facts_of(DividedHistory(HEAD, (), later))

    assert {fact.answers[0] for fact in facts if "result-only" in fact.sets} == {
        "loadsettings",
        "conf/app.toml",
        "40961",
    }
    assert named(facts, "loadsettings").use == "now i call from the helper."
    assert named(facts, "conf/app.toml").use == "now i call loadsettings from the helper. edit path:"


def test_what_was_used_later_is_told_apart() -> None:
    """A reference the agent used again is needed later; a number is so only beside the words it had."""
    later = (event(9, "agent", "I look at a8f68ce again."), event(10, "thought", "8192 of something else"))
    facts = facts_of(DividedHistory(HEAD, (), later))

    assert "later" in named(facts, "a8f68ce").sets
    assert named(facts, "8192").sets == {"all"}


def test_a_decision_is_needed_if_what_it_names_is_used() -> None:
    """A chosen thing that turns up in a later call confirms the decision; one that never does, does not."""
    head = (
        event(0, "agent", "We decided to put it into src/store.py for now."),
        event(1, "agent", "We decided to keep everything as simple as possible."),
    )
    facts = facts_of(DividedHistory(head, (), (event(9, "call", "edit\nsrc/store.py", path="src/store.py"),)))

    assert ["later" in fact.sets for fact in facts if fact.kind == "decision"] == [True, False] or {
        fact.sentence: "later" in fact.sets for fact in facts
    } == {head[0].text: True, head[1].text: False}


def test_what_the_tail_holds_is_a_control() -> None:
    """A fact that stands in the tail anyway is in no other set."""
    facts = facts_of(DividedHistory(HEAD, (event(8, "agent", "Commit a8f68ce has the parser."),), ()))

    assert named(facts, "a8f68ce").sets == {"tail"}


def test_a_query_never_has_the_answer() -> None:
    """Neither the answer nor what it stands in nor a piece of it is asked by; words of a sentence may be."""
    assert (
        remove_answers("open `src/store.py` and store.py in src/store.py:12 now", ("src/store.py",))
        == "open and in now"
    )
    assert remove_answers("make merge failed", ("automatic merge failed",)) == "make merge failed"


def test_a_file_and_an_error_are_asked_for_by_their_cue() -> None:
    """The path or the command line is the origin's word; an error is asked for as one."""
    call = HistoryEvent(1, "1.0", "call", "bash\nmake all", "bash", {"command": "make all"})
    failed = HistoryEvent(2, "2.0", "result", "fatal: nothing to make", "bash", call=call, failed=True, exit_status=2)
    facts = facts_of(DividedHistory((*HEAD, call, failed), (), ()))

    assert named(facts, "fatal: nothing to make").origin == "error make all"
    assert named(facts, "exit 2").origin == "make all"
    assert next(fact for fact in facts if fact.kind == "file").sets == {"all", "modified"}


def test_one_session_does_not_outvote_others() -> None:
    """Of a kind and set a session contributes a bounded number, always the same ones."""
    text = "\n".join(
        f"The {chr(97 + n % 26) * 4} size{chr(97 + n // 26) * 3} is {10_000 + n} bytes." for n in range(200)
    )
    divided = DividedHistory((event(0, "agent", text),), (), ())

    assert len(facts_of(divided)) == MOST_OF_A_KIND
    assert facts_of(divided) == facts_of(divided)
