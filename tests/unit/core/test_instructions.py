"""The user's own words within their room."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from infold.core.checkpoint_text import (
    FIRST,
    LATEST,
    LONGEST_EXCERPT,
    LONGEST_STUB,
    OTHERS,
    RULES,
    UserInstructions,
    write_instructions,
)
from infold.core.ledger import LaterWords, Ledger, Quote, spoken_sentences
from infold.core.tokens import estimate

LONG = Quote("0.0", "Describe every module of the parser. " * 40)
RULE = Quote("4.0", "Never push.")


def size(text: str) -> int:
    """The tokens of a line."""
    return estimate(text, "features") + 1


def told(ledger: Ledger, allowed: int = 1_000, *, more: int = 0, recall: bool = False) -> UserInstructions:
    """A ledger's instructions in that much room."""
    return write_instructions(ledger, allowed_tokens=allowed, more_tokens=more, size=size, recall=recall)


def modules(number: int, part: str) -> str:
    """A request of so many sentences that name a part, ten tokens each or fewer."""
    return " ".join(f"Describe module {part}{one} in the notes." for one in range(number))


def asked(first: str, latest: str = "And now?", *, share: int = 280) -> tuple[UserInstructions, Ledger]:
    """What ten requests of some 60 tokens between a first and a latest one have of a room of 1,000 with that share."""
    quotes = [
        Quote("0.0", first),
        *(Quote(f"{n}.0", modules(6, f"x{n}y")) for n in range(1, 11)),
        Quote("90.0", latest),
    ]
    ledger = Ledger(first_request=quotes[0], latest_request=quotes[-1], requests=tuple(quotes))
    words = write_instructions(ledger, allowed_tokens=1_000, more_tokens=0, size=size, recall=False, asked_tokens=share)
    return words, ledger


@pytest.mark.parametrize(("first", "latest"), [(40, 1), (1, 40), (30, 30)])
def test_the_first_and_the_latest_request_may_take_more_than_the_share(first: int, latest: int) -> None:
    """B2, B52: they stand whole where they fit into the room, and then other requests have a third of their share."""
    words, _ = asked(modules(first, "a"), modules(latest, "b"))
    told = "\n".join(words.blocks)

    assert 280 < words.tokens <= 1_000
    assert modules(first, "a") in told
    assert modules(latest, "b") in told
    assert [block.split("\n")[0] for block in words.blocks[:2]] == [FIRST, LATEST]
    assert sum(map(size, words.blocks[2:])) <= 280 // 3


def test_other_requests_have_what_is_left_of_the_share() -> None:
    """B2, B52: next to short first and latest requests the others fill the share, which all words keep to."""
    words, _ = asked("Port it.")
    free, _ = asked("Port it.", share=1_000)

    assert 200 < words.tokens <= 280
    assert words.blocks[-1].startswith(OTHERS.replace(", verbatim", ", some shortened"))
    assert free.tokens > 500


def test_a_request_that_is_too_long_for_the_room_is_shortened() -> None:
    """B38, B52: a first request for which there is no room at all stands by a part of it, and all words keep to the room."""
    words, _ = asked(modules(140, "a"))

    assert "0.0" in words.short
    assert words.blocks[0].startswith(FIRST.replace(", verbatim", ", some shortened"))
    assert words.tokens <= 1_000


def rules(number: int, words: str = "and never do that in any of the other folders of it either") -> tuple[Quote, ...]:
    """So many rules of some twenty tokens, the first words of which tell them apart."""
    return tuple(Quote(f"{n}.0", f"Rule {n} is this: {words}, since it breaks.") for n in range(number))


def test_all_kinds_stand_in_order_word_for_word() -> None:
    """B2: first request, latest request, rules newest first, then what else was asked, newest first."""
    ledger = Ledger(
        first_request=Quote("0.0", "Build it."),
        latest_request=Quote("9.0", "Test it."),
        requests=(Quote("0.0", "Build it."), Quote("2.0", "Name it."), Quote("3.0", "Sign it."), Quote("9.0", "Test it.")),
        constraints=(RULE, Quote("5.0", "Only tabs.")),
    )  # fmt: skip
    kept = told(ledger)

    assert kept.blocks == (
        f"{FIRST}\n- Build it.",
        f"{LATEST}\n- Test it.",
        f"{RULES}\n- Only tabs.\n- Never push.",
        f"{OTHERS}\n- Sign it.\n- Name it.",
    )
    assert kept.short == ()
    assert kept.tokens == sum(size(line) for block in kept.blocks for line in block.split("\n"))


def test_rules_in_a_request_that_is_quoted_whole_take_no_room() -> None:
    """B2: a first request that is all rules is quoted whole where it fits, and leaves room for a rule that was said later."""
    said = rules(20)
    first = Quote("0.0", " ".join(rule.text for rule in said))
    ledger = Ledger(first_request=first, latest_request=first, requests=(first,), constraints=(*said, RULE))
    room = size(f"- {first.text}") + size(LATEST) + size(RULES) + size(f"- {RULE.text}") + 2

    assert told(ledger, room).blocks == (f"{FIRST}\n- {first.text}", f"{RULES}\n- {RULE.text}")


def test_the_same_words_stand_once() -> None:
    """B2: a rule said again stands once with its newest handle; what a quoted request says needs no line of its own."""
    again = Quote("8.0", RULE.text)
    ledger = Ledger(
        first_request=Quote("0.0", "Build it. Only tabs."),
        requests=(Quote("4.0", RULE.text), Quote("8.0", RULE.text)),
        constraints=(Quote("0.0", "Only tabs."), RULE, again, Quote("6.0", "Only tabs.")),
    )

    assert told(ledger, recall=True).blocks[1:] == (f"{RULES}\n- Never push. [8.0]",)


def test_each_rule_has_a_line_before_any_has_two() -> None:
    """B2: where not all rules fit word for word, the older ones stand in a few words instead of not at all, and are named."""
    few_words = told(Ledger(constraints=rules(20)), 400)
    lines = few_words.blocks[0].splitlines()[1:]

    assert len(lines) == 20
    assert lines[0].endswith("since it breaks.")
    assert lines[-1].startswith("- Rule 0 is this")
    assert lines[-1].endswith("…")
    assert few_words.short[-1] == "0.0"
    assert "19.0" not in few_words.short


def test_what_has_no_room_at_all_is_counted_and_named() -> None:
    """B2: beyond the last line that fits, a count says how many more there are, and each is named."""
    kept = told(Ledger(constraints=rules(20)), 150)
    lines = kept.blocks[0].splitlines()[1:]

    assert lines[-1] == f"- … and {20 - len(lines) + 1} more"
    assert set(kept.short) >= {f"{n}.0" for n in range(20 - len(lines) + 1)}
    assert kept.tokens <= 150


def test_a_long_request_is_whole_while_there_is_room() -> None:
    """B38: no request is cut at a fixed length; a long one gets the room that short ones leave, else its beginning stands."""
    long = Quote("2.0", "x" * (LONGEST_EXCERPT + 1))
    ledger = Ledger(requests=(Quote("1.0", "Name it."), long, Quote("3.0", "y" * LONGEST_EXCERPT)))
    _, whole, stub, named = told(ledger, 120).blocks[0].splitlines()

    assert told(ledger).blocks == (f"{OTHERS}\n- {'y' * LONGEST_EXCERPT}\n- {long.text}\n- Name it.",)
    assert (whole, named) == (f"- {'y' * LONGEST_EXCERPT}", "- Name it.")
    assert stub.endswith(f"… [{LONGEST_EXCERPT + 1} characters in all]")
    assert told(ledger, 120).short == ("2.0",)


def test_of_a_paste_the_users_own_sentences_stay() -> None:
    """B38: of a message too long for its room the sentences stay that were typed, not the code and the logs around them."""
    paste = "\n".join(f"x[{n}] = {{0x{n}, 0x{n}}} << {n};" for n in range(400))
    spoken = "The crane is on loan until May."
    for text in (f"{spoken}\n{paste}", f"{paste}\n{spoken}", f"Here:\n```\n{paste}\n```\n{spoken}\n12:00:01 up"):
        kept = told(Ledger(requests=(Quote("2.0", text),)), 400, recall=True)

        assert spoken in kept.blocks[0]
        assert kept.blocks[0].startswith(OTHERS.replace(", verbatim", ", some shortened"))
        assert kept.blocks[0].endswith(f"[{len(text):,} characters in all; recall 2.0]")
        assert kept.short == ("2.0",)


def test_prohibitions_have_room_before_other_rules() -> None:
    """B38: where not all rules fit word for word, what is forbidden does."""
    wishes = tuple(
        Quote(f"{n}.0", f"Rule {n}: the report should always have a title of its own.") for n in range(1, 20)
    )
    kept = told(
        Ledger(constraints=(Quote("0.0", "The old quay by the northern pier must never be touched by you."), *wishes)),
        300,
    )

    assert "- The old quay by the northern pier must never be touched by you." in kept.blocks[0]
    assert "1.0" in kept.short


def test_later_words_stand_behind_their_sentence() -> None:
    """B48: in rules and in requests; behind a rule that was said again since, they do not."""
    said = Quote("0.0", "Build it. Never push. Use tabs.")
    words = Quote("4.0", 'You may push now ("main" excepted).')
    ledger = Ledger(
        first_request=said,
        requests=(said, Quote("2.0", "Never push."), words),
        constraints=(Quote("0.0", "Never push."), Quote("2.0", "Never push.")),
        later=(LaterWords(Quote("2.0", "Never push."), words),),
    )

    assert told(ledger).blocks == (
        f'{FIRST}\n- Build it. Never push. (later: "{words.text}") Use tabs.',
        f"{OTHERS}\n- {words.text}",
    )
    again = Ledger(constraints=(Quote("6.0", "Never push."),), later=ledger.later)
    assert told(again).blocks[0] == f"{RULES}\n- Never push."


def test_a_shortened_rule_keeps_its_later_words() -> None:
    """B48: where there is hardly any room, a rule's later words are shortened with it."""
    rule = Quote("0.0", "Never push to main, " + "neither by hand nor by a job nor by anybody's bot, " * 6 + "please.")
    words = Quote("4.0", "You may push to main from now on, " + "as long as the tests have passed before, " * 8)
    ledger = Ledger(constraints=(rule,), later=(LaterWords(rule, words),))

    for allowed in (60, 90, 120, 200):
        assert '(later: "You may push to main' in told(ledger, allowed).blocks[0]


def test_an_order_for_one_turn_ends_with_it() -> None:
    """B38: what was to be done or not to be done this time is a rule only while it is the latest request."""
    order = Quote("2.0", "This time don't run the tests.")
    now = Ledger(latest_request=order, requests=(order,), constraints=(order,))
    later = Ledger(latest_request=Quote("4.0", "Next."), requests=(order, Quote("4.0", "Next.")), constraints=(order,))

    assert told(now).blocks == (f"{LATEST}\n- {order.text}",)
    assert told(later).blocks == (f"{LATEST}\n- Next.", f"{OTHERS}\n- {order.text}")


def test_an_answer_stands_with_its_question() -> None:
    """B38: a short reply is quoted with the question it answers, each time it was given."""
    ledger = Ledger(
        latest_request=Quote("9.0", "Yes.", "Shall I push?"),
        requests=(Quote("3.0", "Yes.", "Is the quay free?"), Quote("9.0", "Yes.", "Shall I push?")),
    )

    assert told(ledger).blocks == (
        f'{LATEST}\n- Yes. (asked: "Shall I push?")',
        f'{OTHERS}\n- Yes. (asked: "Is the quay free?")',
    )


def test_no_sentence_stands_twice() -> None:
    """B38: a request leaves out the sentences that stand among the rules."""
    asked = Quote("2.0", "Good. Never push. Now the docs.")

    assert told(Ledger(requests=(asked,), constraints=(Quote("2.0", "Never push."),))).blocks == (
        f"{RULES}\n- Never push.",
        f"{OTHERS.replace(', verbatim', ', some shortened')}\n- Good. … Now the docs.",
    )


def test_other_requests_have_room_of_their_own() -> None:
    """B2: where rules take all their room, other requests get what is given beside it."""
    ledger = Ledger(requests=(Quote("50.0", "Name it."),), constraints=rules(20))

    assert OTHERS not in told(ledger, 100).blocks[-1]
    assert told(ledger, 100, more=30).blocks[-1] == f"{OTHERS}\n- Name it."


def test_the_first_request_comes_before_all_rules() -> None:
    """B2: a first request that fits stands whole, though rules then have less; one that does not is a stub."""
    ledger = Ledger(first_request=LONG, constraints=(RULE,))

    assert told(ledger, 1_000).blocks[0] == f"{FIRST}\n- {LONG.text}"
    assert told(ledger, 150).short == ("0.0",)
    assert told(ledger, 150).blocks[1] == f"{RULES}\n- Never push."


def test_a_long_request_begins_in_one_piece() -> None:
    """B2: of a first or latest request too long for its room the beginning stands as it was sent, with rules, paths and code
    in it, and sentences from further on follow."""
    rule = "Never touch vendor/2019 while the crane is on loan."
    begins = (
        f"Port these to the new parser:\n1. src/a_1.c\n2. src/b_2.c\n{rule}\nReport each of the steps to the harbour."
    )
    further = "The lamp on the quay comes last."
    paste = "\n".join(f"x[{n}] = {{0x{n}, 0x{n}}} << {n};" for n in range(400))
    for middle in (paste, "Describe every module of the parser. " * 60):
        asked = Quote("0.0", f"{begins}\n{middle}\n{further}")
        for ledger, heading in ((Ledger(asked), FIRST), (Ledger(latest_request=asked), LATEST)):
            ledger = replace(ledger, constraints=(Quote("0.0", rule),), requests=(asked,))
            (line, *_) = (
                told(ledger, 400)
                .blocks[0]
                .removeprefix(heading.replace(", verbatim", ", some shortened") + "\n- ")
                .split("\n")
            )

            assert line.startswith(" ".join(begins.split()))
            assert further in line


def test_a_long_first_sentence_is_cut_once() -> None:
    """B2: where the first sentence is longer than its room, its beginning stands, marked as cut."""
    asked = Quote("0.0", "Port the parser, " + "and the lexer of it, " * 60 + "now.\nThe lamp comes last.")
    (line,) = told(Ledger(asked), 120).blocks[0].splitlines()[1:]

    assert line.startswith(f"- {asked.text[:LONGEST_STUB]}")
    assert line.endswith(f"… The lamp comes last. [{len(asked.text):,} characters in all]")


def test_later_words_stand_in_the_beginning_of_a_long_request() -> None:
    """B48: behind their sentence, as where it is quoted whole."""
    begins, rule = "Build the quay of the northern harbour.", "Never push to main."
    asked = Quote("0.0", f"{begins} {rule} " + LONG.text)
    words = Quote("4.0", "You may push to main now.")
    ledger = Ledger(asked, requests=(asked, words), later=(LaterWords(Quote("0.0", rule), words),))

    assert f'- {begins} {rule} (later: "{words.text}") Describe every' in told(ledger, 250).blocks[0]


def test_a_few_words_among_many_blanks_are_shown() -> None:
    """B2: a request too long to be quoted whole only for its blanks stands by its beginning."""
    asked = Quote("2.0", "Name it." + " \n" * 2_500 + "Sign it.")
    block = told(Ledger(requests=(Quote("1.0", "Build it."), asked)), 300, more=300).blocks[0]

    assert block.splitlines()[1:] == ["- Name it. Sign it. [5,016 characters in all]", "- Build it."]


def test_without_room_nothing_is_written_and_all_is_named() -> None:
    """B2: with no room at all, not even for a heading, each instruction is named."""
    kept = told(Ledger(first_request=LONG, constraints=(RULE,), requests=(Quote("2.0", "Name it."),)), 0)

    assert kept == UserInstructions((), 0, ("0.0", "4.0", "2.0"))


words = st.text(st.sampled_from("abcdef Ä你好。.\n/_-0123"), min_size=1, max_size=400).filter(str.strip)
quotes = st.lists(
    st.builds(Quote, st.builds("{}.0".format, st.integers(0, 999)), words), max_size=30, unique_by=lambda q: q.handle
)


@settings(max_examples=100)
@given(quotes, quotes, st.integers(0, 2_000), st.integers(0, 500), st.booleans())
def test_everything_is_word_for_word_or_named(
    asked: list[Quote], laid_down: list[Quote], allowed: int, more: int, recall: bool
) -> None:
    """B2: whatever was said and whatever the room, it is kept to, and each instruction stands verbatim or is named."""
    first, latest = (asked[0], asked[-1]) if asked else (None, None)
    ledger = Ledger(first, latest, requests=tuple(asked), constraints=tuple(laid_down))
    kept = told(ledger, allowed, more=more, recall=recall)
    text = "\n".join(kept.blocks)
    named = {quote.text for quote in (*asked, *laid_down) if quote.handle in kept.short}

    for quote in (*asked, *laid_down):
        sentences = (quote.text, *spoken_sentences(quote.text))
        assert sentences[0] in text or sentences[0] in named or all(sentence in text for sentence in sentences[1:])
    assert kept.tokens <= allowed + more
    assert told(ledger, allowed, more=more, recall=recall) == kept
