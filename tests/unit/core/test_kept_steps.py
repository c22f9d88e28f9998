"""Old steps that a fold keeps in their own form: which, how they look, and where they stand in the view."""

import json

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import apply_step, checkpoint_for, checkpoint_without_steps
from infold.core.cut import Cut
from infold.core.entries import Amendment, Checkpoint, KeptStep, MessageEntry, Rejection, messages_of
from infold.core.gauge import PlanInputs, estimated_tokens, gauge
from infold.core.kept_steps import LONGEST_SAID, OldSteps, size_of_step
from infold.core.ledger import ALL_BEFORE, EXCERPTS, SUMMARY_STATE
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
    text_of,
)
from infold.core.plan import Fold
from infold.core.policy import INFOLD
from infold.core.tokens import estimate
from infold.core.view import view
from infold.testing.builders import calls, numbered, replies, result, session, user

POLICY = INFOLD.but(summary=INFOLD.summary.but(steps_share=0.7))
INPUTS = PlanInputs(POLICY, budget_for(Window(32_000), POLICY))


def step(number: int, *, output: str = "line\n" * 40) -> list[Message]:
    """A command and its output."""
    return [calls("bash", arguments=json.dumps({"command": f"run part {number}"})), result(output=output)]


def keep_steps(log: Log, cut: Cut, room: int) -> tuple[KeptStep, ...]:
    """The steps before a cut that are kept in that much room."""
    return OldSteps(log, cut).keep(room).steps


def steps(count: int) -> list[Message]:
    return [message for number in range(count) for message in step(number)]


def kept(log: Log, room: int = 10_000, *, before: int | None = None) -> list[str]:
    """The arguments and words of what is kept before a message, by default of everything."""
    cut = Cut(log.length, None) if before is None else Cut.at(log, before)
    chosen = keep_steps(log, cut, room)
    return [
        calls_of(message)[0].arguments if calls_of(message) else text_of(message)
        for one in chosen
        for message in one.messages[:1]
    ]


def folded(log: Log, *, budget: int = 2_000, index: int | None = None) -> Log:
    """The log after a fold by code."""
    cut = Cut(log.length, None) if index is None else Cut.at(log, index)
    return apply_step(log, Fold(cut, budget, "trigger"), INPUTS).log


# Which steps.


def test_the_newest_steps_that_fit_are_kept_in_their_order() -> None:
    """B52: newest first while there is room, shown oldest first; results are stubs."""
    log = session(user("Port it."), *steps(6))
    one = size_of_step(keep_steps(log, Cut(log.length, None), 10_000)[0], log.rendering).measure

    assert kept(log, 2 * one) == ['{"command": "run part 4"}', '{"command": "run part 5"}']


def test_a_reply_without_content_is_no_step() -> None:
    """B52: a blank reply has nothing to show, and is not joined with another."""
    log = session(user("Port it."), *step(0), replies("  "), *step(1))

    assert kept(log) == ['{"command": "run part 0"}', '{"command": "run part 1"}']


def test_a_step_that_does_not_fit_makes_way_for_an_older_one() -> None:
    """B52: a large step is left out, and what is older and smaller is still kept."""
    large = calls("bash", arguments=json.dumps({"command": "x " * 190, "more": "y " * 190, "again": "z " * 190}))
    log = session(user("Port it."), *step(0), large, result(output="ok"))

    assert kept(log, 60) == ['{"command": "run part 0"}']


def test_only_steps_before_the_cut_are_kept() -> None:
    """B52: what the tail shows is not kept twice."""
    log = session(user("Port it."), *steps(3))

    assert kept(log, before=5) == ['{"command": "run part 0"}', '{"command": "run part 1"}']


def test_steps_of_the_last_fold_compete_again() -> None:
    """B52: at the next fold, kept steps and new ones share the room, the newest first."""
    first = folded(session(user("Port it."), *steps(2)))
    assert first.checkpoint is not None
    assert [one.sequence for one in first.checkpoint.steps] == [1, 3]

    later = first.extend(map(MessageEntry, numbered(step(2), prefix="n")))

    assert len(kept(later)) == 3
    assert kept(later, 100)[-1] == '{"command": "run part 2"}'


@pytest.mark.parametrize(
    "reply",
    [
        calls("recall", arguments='{"query": "parser"}'),
        calls("infold_compact"),
        calls("todo_write", arguments='{"todos": [{"content": "port", "status": "pending"}]}'),
        calls("todo_write", arguments='{"todos": []}'),
        AssistantMessage(
            replies().id, (TextPart('{"type": "new_block"}', opaque=True), ToolCallPart("", "bash", "{}"))
        ),
        AssistantMessage(replies().id, (TextPart("cwd", state=("cwd",)), ToolCallPart("", "bash", "{}"))),
    ],
)
def test_some_replies_are_never_kept(reply: AssistantMessage) -> None:
    """B52: infold's own tools, older todo lists, and blocks that belong to their surroundings."""
    assert kept(session(user("Port it."), reply, result(output="done"))) == []


def test_a_call_without_a_result_is_not_kept() -> None:
    """B52: pairs stay whole."""
    assert kept(session(user("Port it."), *step(0), calls("bash", "bash"), result(output="one"), user("stop"))) == [
        '{"command": "run part 0"}'
    ]


def test_a_late_result_answers_no_kept_call() -> None:
    """B52: a result that came after its step is not put back."""
    log = session(user("Port it."), calls("bash"), user("go on"), result(output="late"), user("more"))

    assert kept(log) == []


def test_a_reply_of_thinking_alone_is_not_kept() -> None:
    """B52: without words or calls there is no step."""
    thought = AssistantMessage(replies().id, (ReasoningPart("hm", provider_data='"sealed"'),))

    assert kept(session(user("Port it."), thought, user("go on"))) == []


# How they look.


def test_words_calls_and_stubs() -> None:
    """B52: words and calls stay, a result is a stub by which it can be recalled; thinking that is not signed goes."""
    reply = AssistantMessage(
        replies().id,
        (
            ReasoningPart("hm"),
            TextPart("I look."),
            TextPart("  "),
            ToolCallPart("", "read", "{}"),
        ),
    )
    log = session(user("Port it."), reply, result(output="x" * 300), recall=True)
    (one,) = keep_steps(log, Cut(log.length, None), 1_000)
    asked, answered = one.messages

    assert [type(part) for part in asked.parts] == [TextPart, ToolCallPart]
    assert results_of(answered)[0].output == "[pruned; recall 2.0]"
    assert results_of(answered)[0].call_id == calls_of(asked)[0].call_id


THOUGHT = AssistantMessage(
    replies().id, (ReasoningPart("hm", provider_data='"sealed"'), TextPart("I look."), ToolCallPart("", "read", "{}"))
)


def thinking_in(log: Log) -> list[ReasoningPart]:
    return [part for message in view(log, POLICY.summary) for part in message.parts if isinstance(part, ReasoningPart)]


def test_signed_thinking_is_kept_unless_it_is_bound() -> None:
    """B32, B52: thinking that the provider signed stays with its step, as in the tail; where it is bound, it goes."""
    story = (user("Port it."), THOUGHT, result(output="x" * 300), user("go on"))
    log = session(*story)
    cut = Cut.at(log, 3)
    bound = replace(log, rendering=replace(log.rendering, binds_thinking=True))

    assert [one.messages[0].parts for one in keep_steps(log, cut, 1_000)] == [log.live[1].message.parts]
    assert [type(part) for part in keep_steps(bound, cut, 1_000)[0].messages[0].parts] == [TextPart, ToolCallPart]


def test_a_refusal_takes_the_thinking_of_kept_steps_away() -> None:
    """B32, B52: once a refusal shows that thinking is bound, no view and no later fold has that of kept steps."""
    log = folded(session(user("Port it."), *step(0), THOUGHT, result(output="x" * 300), user("go on")), index=5)
    refused = log.append(Rejection(0, bound_thinking=True))
    later = folded(refused.extend(map(MessageEntry, numbered([*step(1), user("more")], prefix="n"))), index=3)

    assert thinking_in(log)
    assert not thinking_in(refused)
    assert refused.checkpoint_size.measure < log.checkpoint_size.measure
    assert len(later.steps) == 3
    assert not thinking_in(later)


def test_thinking_of_kept_steps_counts_as_shown() -> None:
    """B32, B52: a refusal is recovered from also if only kept steps have thinking, and then no more is shown."""
    log = folded(session(user("Port it."), THOUGHT, result(output="x" * 300), user("go on")), index=3)

    assert not any(logged.has_thinking for logged in log.live)
    assert log.shown_thinking == 1
    assert log.append(Rejection(0, bound_thinking=True)).shown_thinking == 0


def test_a_failure_is_named_and_a_short_outcome_stays() -> None:
    """B52: a stub does not hide that a call failed; what a command printed stays if it is shorter than its stub."""
    failing = result(output="Traceback\n" * 30, status="error")
    log = session(
        user("Port it."), calls("bash"), failing, calls("bash", arguments='{"command": "make"}'), result(output="ok")
    )
    first, second = keep_steps(log, Cut(log.length, None), 1_000)

    assert results_of(first.messages[1])[0].output == "[pruned, failed]"
    assert results_of(second.messages[1])[0].output == "ok"


def test_large_arguments_become_stubs_unless_they_are_signed() -> None:
    """B52: an edit is shown whole where there is room; a signed call is not changed."""
    written = json.dumps({"path": "a.py", "content": "x = 1\n" * 200})
    log = session(user("Port it."), calls("write", arguments=written), result(output="done"))
    signed = AssistantMessage(replies().id, (ToolCallPart("", "write", written, provider_data='"signature"'),))
    bound = session(user("Port it."), signed, result(output="done"))

    assert json.loads(kept(log)[0])["content"] == "x = 1\n" * 200
    assert "[pruned: 1,200 characters]" in kept(log, 100)[0]
    assert kept(bound, 100) == []
    assert kept(bound) == [written]


def test_long_words_end_between_two_words() -> None:
    """B52: a long report is shown by its beginning."""
    (shown,) = kept(session(user("Port it."), replies("parser ported " * 200), user("go on")))

    assert shown.endswith(("ported …", "parser …"))
    assert len(shown) <= LONGEST_SAID + 2


def test_replies_in_a_row_are_joined() -> None:
    """B52: a reply without calls joins the next one, since providers want roles to alternate."""
    log = session(user("Port it."), replies("It is ported."), user("Test it."), *step(1))
    messages = messages_of(keep_steps(log, Cut(log.length, None), 1_000))

    assert [type(message) for message in messages][:1] == [AssistantMessage]
    assert len(messages) == 2
    assert text_of(messages[0]) == "It is ported."
    assert calls_of(messages[0])


def test_a_reply_is_not_kept_in_front_of_a_reply() -> None:
    """B52: where the tail begins with a reply, a kept reply without calls would stand in a row with it."""
    log = session(user("Port it."), *step(0), replies("Ported."), user("Test it."), *step(1))

    assert kept(log, before=5) == ['{"command": "run part 0"}']
    assert kept(log, before=4) == ['{"command": "run part 0"}', "Ported."]


def test_words_without_thinking_are_not_kept_before_thinking() -> None:
    """B32, B52: words join the step after them, whose thinking has to come first; words with thinking of their own may."""
    spoken = AssistantMessage(replies().id, (ReasoningPart("hm", provider_data='"own"'), TextPart("Ported.")))
    plain = session(user("Port it."), replies("Ported."), user("Go on."), THOUGHT, result(output="x" * 300))
    signed = session(user("Port it."), spoken, user("Go on."), THOUGHT, result(output="x" * 300))

    assert kept(plain) == ["{}"]
    assert [type(part) for part in messages_of(keep_steps(signed, Cut(signed.length, None), 1_000))[0].parts] == [
        *(ReasoningPart, TextPart),
        *(ReasoningPart, TextPart, ToolCallPart),
    ]


def test_a_blank_reply_is_no_neighbour() -> None:
    """B52: what stands behind the cut is what the view shows there: a blank reply in front of the user's words is left out."""
    log = session(user("Port it."), *step(0), replies("Ported."), replies(" "), user("Test it."))

    assert kept(log, before=4) == ['{"command": "run part 0"}', "Ported."]


def signed_step(number: int) -> list[Message]:
    """A command whose call the provider signed, and its output."""
    call = ToolCallPart("", "bash", json.dumps({"command": f"run part {number}"}), provider_data='"signature"')
    return [AssistantMessage(replies().id, (call,)), result(output="line\n" * 40)]


def test_unsigned_calls_are_not_kept_before_signed_ones_of_the_same_turn() -> None:
    """B32, B52: Gemini wants a signature on each step of the turn under way, which kept steps would belong to; words need
    none, and neither do steps before a turn that the tail begins."""
    story = [user("Port it."), *step(0), replies("Ported."), user("Test it."), *signed_step(1), *signed_step(2)]
    log = session(*story, user("Go on."), *signed_step(3))

    assert kept(session(*story), before=7) == ["Ported.", '{"command": "run part 1"}']
    assert kept(log, before=9) == ['{"command": "run part 0"}', "Ported."] + [
        f'{{"command": "run part {number}"}}' for number in (1, 2)
    ]


def test_media_become_their_line() -> None:
    """B52: an image in a reply and one in a result are named where they stood, signed or not."""
    image = FilePart("image/png", 900, name="plan.png", byte_size=5_000)
    shown = ToolMessage(replies().id, (ToolResultPart("", "", "shown", files=(image,)),))
    for data in ("", '"signature"'):
        drawn = AssistantMessage(replies().id, (image, ToolCallPart("", "bash", "{}", provider_data=data)))
        log = session(user("Draw it."), drawn, shown)
        ((asked, answered),) = (one.messages for one in keep_steps(log, Cut(log.length, None), 1_000))

        assert asked.parts[0] == TextPart('[attached: image/png "plan.png" (5 kB, not stored)]')
        assert results_of(answered)[0].output == '[pruned]\n[attached: image/png "plan.png" (5 kB, not stored)]'
        assert not results_of(answered)[0].files


@pytest.mark.parametrize(
    ("tool", "command", "output"),
    [
        ("bash", "cat VERSION", "1.2.3"),
        ("bash", "make && git rev-parse HEAD", "8f3a"),
        ("bash", "curl -s https://a.example/level", "7"),
        ("mcp__host__run", "level", "7"),
    ],
)
def test_content_is_never_kept_as_an_outcome(tool: str, command: str, output: str) -> None:
    """B52: what a file holds may have changed since, and what is from outside the project stays in its result, however short."""
    call = calls(tool, arguments=json.dumps({"command": command}))
    log = session(user("Port it."), call, result(output=output))
    ((_, answered),) = (one.messages for one in keep_steps(log, Cut(log.length, None), 1_000))

    assert results_of(answered)[0].output == "[pruned]"


# In the view.


def test_the_view_shows_checkpoint_steps_and_tail() -> None:
    """B52: one text that ends with the line about excerpts, then the steps, then the tail as it was."""
    log = folded(session(user("Port it."), *steps(4), user("Now test it.")), index=9)
    text, first, *_, last = view(log, POLICY.summary)

    assert text_of(text).endswith(EXCERPTS)
    assert isinstance(first, AssistantMessage)
    assert isinstance(last, UserMessage)
    assert text_of(last) == "Now test it."
    assert len(view(log, POLICY.summary)) == 1 + 8 + 1


def test_the_size_of_a_view_has_its_steps() -> None:
    """B52: kept steps count towards the window, and towards what the next fold can free."""
    log = folded(session(user("Port it."), *steps(4), user("Now test it.")), index=9)
    assert log.checkpoint is not None
    bare = folded(session(user("Port it."), *steps(4), user("Now test it.")), index=9, budget=1)

    assert gauge(log, INPUTS).upper_tokens > gauge(bare, INPUTS).upper_tokens
    assert log.checkpoint.tokens_after == pytest.approx(gauge(log, replace(INPUTS, bound=1.0)).upper_tokens, rel=0.05)


def test_text_and_steps_share_the_room() -> None:
    """B52: what the text does not need is for steps, and both together keep to the budget."""
    log = session(user("Port it."), *steps(60))
    checkpoint, _ = checkpoint_for(log, Fold(Cut(log.length, None), 1_500, "trigger"), INPUTS)
    after = log.append(checkpoint)

    assert checkpoint.steps
    assert after.checkpoint_size.measure <= 1_500 * 1.05


@pytest.mark.parametrize(("words", "is_long"), [(20, False), (90, True), (120, True)])
def test_a_long_first_request_stands_whole_next_to_steps(words: int, is_long: bool) -> None:
    """B2, B52: a first request of more than 28 % of the room is whole next to kept steps; then others have half of that."""
    first = " ".join(f"Describe module a{number} in the notes." for number in range(words))
    others = [" ".join(f"Then name part b{number}c{place} too." for place in range(9)) for number in range(12)]
    log = session(
        user(first), *steps(20), *(draft for other in others for draft in (user(other), *step(99))), *steps(20)
    )
    checkpoint, _ = checkpoint_for(log, Fold(Cut(log.length, None), 2_000, "trigger"), INPUTS)
    share = 0.28 * 2_000
    blocks = checkpoint.text.split("\n\n")
    asked = [block for block in blocks if "request" in block.split("\n")[0]][1:]
    told = estimate("\n\n".join(asked), "features")

    assert (estimate(first, "features") > share) is is_long
    assert first in checkpoint.text
    assert checkpoint.steps
    assert any(block.startswith("Other requests") for block in asked)
    assert share < estimate(" ".join(others), "features")
    assert (told - estimate(asked[0], "features") if is_long else told) <= (share / 2 if is_long else share)
    assert log.append(checkpoint).checkpoint_size.measure <= 2_000 * 1.05


def test_without_a_share_nothing_is_kept() -> None:
    """B52: a policy whose text takes all of the room keeps no steps, and its text has no line about them."""
    inputs = replace(INPUTS, policy=INFOLD.but(summary=INFOLD.summary.but(steps_share=0.0)))
    log = session(user("Port it."), *steps(10))
    checkpoint, _ = checkpoint_for(log, Fold(Cut(log.length, None), 1_500, "trigger"), inputs)

    assert not checkpoint.steps
    assert EXCERPTS not in checkpoint.text


def test_without_tools_nothing_is_kept() -> None:
    """B52: a fold for a request that offers no tools keeps no calls, which providers refuse then; its text has all the room."""
    inputs = replace(INPUTS, offers_tools=False)
    log = session(user("Port it."), *steps(10))
    checkpoint, _ = checkpoint_for(log, Fold(Cut(log.length, None), 1_500, "trigger"), inputs)

    assert not checkpoint.steps
    assert EXCERPTS not in checkpoint.text


def test_a_checkpoint_is_written_again_without_its_steps() -> None:
    """B52: for a request without tools the same fold stands there without its steps, and with the tail as it was."""
    log = folded(session(user("Port it."), *steps(4), user("Now test it."), *steps(1)), index=9)
    assert log.checkpoint is not None
    bare = checkpoint_without_steps(log, INPUTS, now_ms=7)
    assert bare is not None
    after = log.append(bare)

    assert (after.steps, after.checkpoint_text) == ((), log.checkpoint.text.removesuffix(f"\n\n{EXCERPTS}"))
    assert [logged.message for logged in after.live] == [logged.message for logged in log.live]
    assert (bare.folded, bare.fingerprint, bare.ledger) == (
        log.checkpoint.folded,
        log.checkpoint.fingerprint,
        log.checkpoint.ledger,
    )
    assert bare.tokens_after == estimated_tokens(after, INPUTS) < bare.tokens_before == estimated_tokens(log, INPUTS)
    assert checkpoint_without_steps(after, INPUTS) is None
    assert checkpoint_without_steps(session(user("Port it.")), INPUTS) is None


def test_steps_stay_where_the_same_fold_cannot_be_made_again() -> None:
    """B52: if the tail was taken back, what follows is kept whole, or the steps stay where it cannot begin a tail."""
    story = [user("Port it."), *steps(4), calls("bash"), user("Now test it.")]
    log = folded(session(*story), index=10)
    back = log.append(Amendment(log.live[0].sequence))
    late = back.append(MessageEntry(ToolMessage(MessageId("late"), (ToolResultPart("m9-call0", "bash", "late"),))))
    bare = checkpoint_without_steps(back, INPUTS)

    assert bare is not None
    assert bare.first_kept is None
    assert late.steps
    assert checkpoint_without_steps(late, INPUTS) is None


def test_no_step_is_shown_behind_the_providers_own_summary() -> None:
    """B52: nothing may come between a provider's summary and what follows it."""
    log = session(user("Port it."), *steps(2))
    native = numbered([replies("sealed")])
    checkpoint = Checkpoint("text", steps=keep_steps(log, Cut(log.length, None), 1_000), native=native)
    after = replace(log, rendering=replace(log.rendering, shows_native=True)).append(checkpoint)

    assert after.steps == ()
    assert log.append(replace(checkpoint, native=())).steps == checkpoint.steps


def test_no_step_is_kept_behind_a_summary_that_the_client_asked_the_provider_for() -> None:
    """B33, B52: a fold carries on the provider's own block, and behind it stand the text and the tail alone, also at the next
    fold; the text has what the steps would say."""
    block = ReasoningPart("So far.", '{"type": "compaction", "content": "So far."}', (SUMMARY_STATE, ALL_BEFORE))
    summed = AssistantMessage(replies().id, (block, TextPart("On it goes.")))
    log = folded(session(user("Port it."), *steps(3), summed, *steps(4), user("Now test it.")), index=16)
    again = folded(log.extend(map(MessageEntry, numbered([*steps(4), user("more")], prefix="n"))), index=9)

    for one in (log, again):
        assert one.steps == ()
        assert one.state
        assert EXCERPTS not in one.checkpoint_text
        first, text, *_ = view(one, POLICY.summary)
        assert isinstance(first, AssistantMessage)
        assert "run part 3" in text_of(text)


def test_words_beside_a_result_do_not_hide_it() -> None:
    """B52: some providers send a result and the user's words in one message; the result still answers its call."""
    answer = UserMessage(replies().id, (ToolResultPart("", "", "x" * 300), TextPart("And go on.")))

    assert kept(session(user("Port it."), calls("bash"), answer)) == ["{}"]


def test_a_settled_failure_is_kept_only_with_what_settled_it() -> None:
    """B52: a step that failed where a later one succeeded is left out if that one has no room."""
    long = json.dumps({"path": "src/a.py", "old": "x " * 190, "new": "y " * 190})
    failed = calls("edit", arguments=json.dumps({"path": "src/a.py", "old": "z"}))
    log = session(
        user("Port it."),
        failed,
        result(output="error: no match", status="error"),
        *step(1),
        calls("edit", arguments=long),
        result(output="done"),
    )

    assert len(kept(log)) == 3
    assert kept(log, 60) == ['{"command": "run part 1"}']


def test_a_failure_is_not_kept_if_what_settled_it_cannot_be() -> None:
    """B52: what settled a failure counts though its step is never kept, such as one with a todo list next to it."""
    edit = ToolCallPart("", "edit", json.dumps({"path": "src/a.py", "old": "x"}))
    todo = ToolCallPart("", "todo_write", '{"todos": [{"content": "port", "status": "pending"}]}')
    log = session(
        user("Port it."),
        calls("edit", arguments=json.dumps({"path": "src/a.py", "old": "z"})),
        result(output="error: no match", status="error"),
        AssistantMessage(replies().id, (edit, todo)),
        result(output="done"),
        result(output=""),
        *step(1),
    )

    assert kept(log) == ['{"command": "run part 1"}']


def test_of_repetitions_in_a_row_the_newest_is_kept() -> None:
    """B52: waiting for something is shown once; what is done again after something else shows how the work is done."""
    log = session(user("Port it."), *step(0), *step(1), *step(0), *step(0), *step(0))

    assert [one.sequence for one in keep_steps(log, Cut(log.length, None), 10_000)] == [1, 3, 9]


def test_an_open_failure_is_kept() -> None:
    """B52: what failed last stands, and its stub says so."""
    log = session(
        user("Port it."),
        *step(1),
        calls("bash", arguments='{"command": "make"}'),
        result(output="no rule", status="error"),
    )
    (message,) = keep_steps(log, Cut(log.length, None), 10_000)[-1].messages[1:]

    assert results_of(message)[0].output == "no rule"
    assert kept(log)[-1] == '{"command": "make"}'


def test_a_whole_file_is_kept_whole_only_where_there_is_much_room() -> None:
    """B52: a large argument is whole up to a quarter of the room; otherwise a stub with its length stands there."""
    text = "line of the file\n" * 200
    log = session(
        user("Port it."), calls("write", arguments=json.dumps({"path": "a.py", "content": text})), result(output="ok")
    )

    assert json.loads(kept(log, 10_000)[0])["content"] == text
    assert json.loads(kept(log, 1_000)[0])["content"] == f"[pruned: {len(text):,} characters]"


def test_older_steps_are_not_looked_at_for_ever() -> None:
    """B52: after many steps that do not fit, the search ends."""
    small = step(0)
    arguments = json.dumps({"command": "x " * 190, "more": "y " * 190})
    large: list[Message] = [calls("bash", arguments=arguments), result(output="ok")]
    log = session(user("Port it."), *small, *(large * 60))

    assert kept(log, 60) == []
