"""`fit`: plain messages in, the same shape out, inside the window."""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
import pytest
from tests.support.policies import FOLDS
from tests.support.provider_rules import problems
from tests.support.wire import Dumpable

from infold import UsageError, Window, WindowExceeded, fit, preset
from infold.catalogue import Override
from infold.core.policy import INFOLD, PRESETS, Policy
from infold.errors import BrokenInput, UnknownFormat, UnknownPreset
from infold.formats.registry import ANTHROPIC_MESSAGES, FORMATS, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat

Item: TypeAlias = dict[str, Any]

RULE = "Never touch the files under vendor/."
OPENING = f"Port the importer to the new feed. {RULE}"
TURNS = 6
WINDOW = 4_096
STUB = "[pruned: 2,160 characters of bash output"


def output(turn: int) -> str:
    """What the tool of a turn shows: about nine hundred tokens."""
    return f"[{turn}] 09:14 INFO ferry.store: route 17 is late in 42 ms\n" * 40


def asked(turn: int) -> str:
    """What the user says in a turn."""
    return OPENING if turn == 0 else f"Now part {turn} of it."


def chat(turn: int) -> list[Item]:
    """A turn as Chat Completions has it."""
    function = {"name": "bash", "arguments": '{"command":"make"}'}
    call = {"id": f"call_{turn}", "type": "function", "function": function}
    return [
        {"role": "user", "content": asked(turn)},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{turn}", "content": output(turn)},
        {"role": "assistant", "content": f"Part {turn} is done."},
    ]


def responses(turn: int) -> list[Item]:
    """A turn as Responses has it."""
    call = {"type": "function_call", "call_id": f"call_{turn}", "name": "bash", "arguments": '{"command":"make"}'}
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": asked(turn)}]},
        call,
        {"type": "function_call_output", "call_id": f"call_{turn}", "output": output(turn)},
        {"role": "assistant", "content": f"Part {turn} is done."},
    ]


def anthropic(turn: int) -> list[Item]:
    """A turn as Anthropic Messages has it."""
    use = {"type": "tool_use", "id": f"call_{turn}", "name": "bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": f"call_{turn}", "content": output(turn)}
    return [
        {"role": "user", "content": asked(turn)},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": f"Part {turn} is done."},
    ]


def gemini(turn: int) -> list[Item]:
    """A turn as generateContent has it."""
    response = {"name": "bash", "response": {"output": output(turn)}}
    return [
        {"role": "user", "parts": [{"text": asked(turn)}]},
        {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {"command": "make"}}}]},
        {"role": "user", "parts": [{"functionResponse": response}]},
        {"role": "model", "parts": [{"text": f"Part {turn} is done."}]},
    ]


SHAPES: tuple[tuple[WireFormat, Callable[[int], list[Item]]], ...] = (
    (OPENAI_CHAT, chat),
    (OPENAI_RESPONSES, responses),
    (ANTHROPIC_MESSAGES, anthropic),
    (GEMINI, gemini),
)
each_shape = pytest.mark.parametrize(("wire", "turn"), SHAPES, ids=[wire.name for wire, _ in SHAPES])
pruned_or_folded = pytest.mark.parametrize("policy", [INFOLD, FOLDS], ids=["pruned", "folded"])


def history(turn: Callable[[int], list[Item]] = chat, turns: int = TURNS) -> list[Any]:
    """Turns of about nine hundred tokens each, ending with the user's next wish."""
    return [item for number in range(turns) for item in turn(number)] + turn(turns)[:1]


def texts(value: object) -> Iterator[str]:
    """Every text in wire items."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


# The same shape out.


@pruned_or_folded
@each_shape
def test_the_shape_stays(wire: WireFormat, turn: Callable[[int], list[Item]], policy: Policy) -> None:
    """B12: what is sent is in the format that came, and nothing its provider would refuse."""
    fitted = fit(history(turn), window=WINDOW, policy=policy)

    assert fitted.report.format == wire.name
    assert fitted.report.changed
    assert problems(wire, fitted.messages) == ()
    assert wire.decode(fitted.messages).messages


@pruned_or_folded
@each_shape
def test_it_fits(wire: WireFormat, turn: Callable[[int], list[Item]], policy: Policy) -> None:
    """B8: the most the request can be is at most what the window leaves."""
    report = fit(history(turn), window=WINDOW, policy=policy).report

    assert report.tokens_after <= report.upper_tokens <= report.budget.limit_tokens < WINDOW
    assert report.tokens_before > WINDOW


@each_shape
def test_the_rule_of_the_opening_message_stays(wire: WireFormat, turn: Callable[[int], list[Item]]) -> None:
    """B2: the user's first message is in the request, word for word, after its message was folded."""
    fitted = fit(history(turn), window=WINDOW, policy=FOLDS)

    assert any(OPENING in text for text in texts(fitted.messages))
    assert fitted.messages[0] != history(turn)[0]


@pruned_or_folded
@each_shape
def test_the_callers_list_does_not_change(wire: WireFormat, turn: Callable[[int], list[Item]], policy: Policy) -> None:
    """B25: list and objects are as they were, whatever was folded or pruned."""
    messages = history(turn)
    before, objects = copy.deepcopy(messages), list(map(id, messages))
    fit(messages, window=WINDOW, policy=policy, recall=True)

    assert messages == before
    assert list(map(id, messages)) == objects


@each_shape
def test_untouched_messages_are_the_very_objects(wire: WireFormat, turn: Callable[[int], list[Item]]) -> None:
    """B25: a message that nothing changed is given back as the object it came as."""
    messages = history(turn)
    given = {id(message) for message in messages}
    fitted = fit(messages, window=WINDOW, policy=FOLDS).messages
    kept = [message for message in fitted if id(message) in given]

    assert [id(message) for message in kept] == [id(message) for message in messages[-len(kept) :]]
    assert kept == fitted[-len(kept) :]
    assert len(kept) >= 6


@each_shape
def test_messages_around_stubs_are_the_very_objects(wire: WireFormat, turn: Callable[[int], list[Item]]) -> None:
    """B25: where old results become stubs, each other message is given back in its place as the object it came as."""
    messages = history(turn)

    assert {place % 4 for place in changed_places(messages)} == {2}


def changed_places(messages: list[Any]) -> list[int]:
    """The places of the messages that `fit` does not give back as the objects they came as; none is left out."""
    pairs = enumerate(zip(fit(messages, window=WINDOW).messages, messages, strict=True))
    return [place for place, (sent, given) in pairs if sent is not given]


@each_shape
def test_what_fits_is_left_alone(wire: WireFormat, turn: Callable[[int], list[Item]]) -> None:
    """B25: a history that fits comes back as its own objects in a list of its own."""
    messages = history(turn)
    fitted = fit(messages, window=200_000, format=wire.name)

    assert fitted.messages is not messages
    assert all(given is back for given, back in zip(messages, fitted.messages, strict=True))
    assert not fitted.report.changed


@pytest.mark.parametrize("guise", [msgspec.json.encode, Dumpable], ids=["bytes", "SDK objects"])
def test_other_guises_are_taken(guise: Callable[[Item], object]) -> None:
    """B25: JSON bytes and SDK objects come back as they are where nothing changed them."""
    messages = [guise(item) for item in history()]
    fitted = fit(messages, window=WINDOW, policy=FOLDS).messages

    assert problems(OPENAI_CHAT, fitted) == ()
    kept = [message for message in fitted if any(message is one for one in messages)]
    assert len(kept) >= 6
    assert [id(message) for message in fitted[-len(kept) :]] == [id(message) for message in messages[-len(kept) :]]


@pytest.mark.parametrize("guise", [msgspec.json.encode, Dumpable], ids=["bytes", "SDK objects"])
def test_other_guises_are_taken_around_stubs(guise: Callable[[Item], object]) -> None:
    """B25: the same where old results became stubs."""
    assert {place % 4 for place in changed_places([guise(item) for item in history()])} == {2}


def test_pruned_results_keep_their_pairs() -> None:
    """B12: a pruned result is a copy with a stub in it, behind the very call it answers; the newest stays whole."""
    small = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Gone on."}]
    messages: list[Any] = [*history(turns=4)[:-1], *small * 40]
    fitted = fit(messages, window=WINDOW).messages
    altered = [new for new in fitted if not any(new is old for old in messages)]
    older = [item for item in messages if item["role"] == "tool"][:-1]

    assert len(fitted) == len(messages)
    assert [new | {"content": old["content"]} for new, old in zip(altered, older, strict=True)] == older
    assert all(new["content"].startswith(STUB) and len(new["content"]) < len(output(0)) / 4 for new in altered)


# System prompt and tools.


@pruned_or_folded
def test_head_system_messages_stay(policy: Policy) -> None:
    """Instructions that open the list are the very objects in front of every request, folded or not."""
    head: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Use make."}]
    fitted = fit([*head, *history()], window=WINDOW, policy=policy)

    assert fitted.report.changed
    assert fitted.messages[0] is head[0]
    assert fitted.messages[1] is head[1]


def test_head_system_messages_are_counted_once() -> None:
    """B8: instructions in the list are counted with the system prompt, not again with the history."""
    head = [{"role": "system", "content": "Be brief. " * 50}]
    alone, together = fit(history(), window=200_000).report, fit([*head, *history()], window=200_000).report

    assert alone.overhead_tokens == 0
    assert together.overhead_tokens == together.before["system"] > 100
    assert together.tokens_after == alone.tokens_after + together.overhead_tokens == together.tokens_before


@pytest.mark.parametrize("beside", ["system", "tools"])
@pytest.mark.parametrize(
    "value",
    ["word " * 400, [{"type": "text", "text": "word " * 400}], Dumpable({"description": "word " * 400})],
    ids=["text", "dicts", "SDK object"],
)
def test_what_is_sent_beside_is_counted(beside: str, value: object) -> None:
    """B8: system prompt and tools take their tokens of the window, in whatever shape they are given."""
    bare = fit(history(), window=200_000).report
    options: Item = {beside: value}
    report = fit(history(), window=200_000, **options).report

    assert 400 <= report.overhead_tokens <= 430
    assert report.tokens_after == bare.tokens_after + report.overhead_tokens


def test_what_cannot_be_counted_is_an_error() -> None:
    """Tools that are no JSON are the caller's to change."""
    with pytest.raises(UsageError, match="give text, dicts or SDK objects"):
        fit(history(), window=WINDOW, tools=[object()])


# Which window.


def test_a_window_is_enough() -> None:
    """Without a model the window is what the caller says."""
    report = fit(history(), window=WINDOW).report

    assert report.model is None
    assert report.budget.usable_tokens == WINDOW - 614


def test_a_whole_window_can_be_given() -> None:
    """A window with a limit on the input alone is taken as it is."""
    report = fit(history(), window=Window(200_000, input_tokens=3_000)).report

    assert report.upper_tokens <= report.budget.limit_tokens <= 3_000


def test_a_model_is_enough() -> None:
    """A model's window is the catalogue's."""
    report = fit(history(), model="gpt-4o").report

    assert report.model is not None
    assert report.model.entry.context_tokens == 128_000
    assert 100_000 < report.budget.limit_tokens < 128_000


def test_a_given_window_goes_before_the_models() -> None:
    """Both given: the window is the caller's, counting and prices are the model's."""
    report = fit(history(), model="gpt-4o", window=WINDOW).report

    assert report.budget.limit_tokens < WINDOW
    assert report.cost is not None


def test_neither_is_an_error() -> None:
    """Nobody can say what fits in no window."""
    with pytest.raises(UsageError, match="pass model='…' or window=…"):
        fit(history())


def test_an_unknown_model_is_assumed_aloud() -> None:
    """B11: a model nobody knows gets a cautious window, and the report says so and what to do."""
    report = fit(history(), model="my-own-model").report

    assert report.budget.limit_tokens < 32_768
    assert "a window of 32,768 tokens is assumed" in report.explain()
    assert "pass the window yourself" in report.explain()


def test_an_override_is_heard() -> None:
    """What the user states about a model counts before the catalogue."""
    overrides = {"my-own-model": Override(context_tokens=WINDOW)}
    report = fit(history(), model="my-own-model", overrides=overrides).report

    assert report.budget.limit_tokens < WINDOW
    assert "assumed" not in report.explain()


# What does not fit, and what is not there.


def test_what_cannot_fit_is_told_with_its_numbers() -> None:
    """B9: the error has the smallest request there is, what is usable and what of it is system prompt and tools."""
    with pytest.raises(WindowExceeded) as caught:
        fit(history(), window=WINDOW, system="word " * 4_000)
    error = caught.value

    assert error.floor_tokens == error.overhead_tokens >= 4_000
    assert error.usable_tokens == WINDOW - 614
    assert f"{error.floor_tokens:,} tokens" in str(error)


def test_a_giant_newest_message_is_clipped() -> None:
    """B9: a message larger than the window is shortened, not refused."""
    fitted = fit([{"role": "user", "content": "word " * 20_000}], window=WINDOW)

    assert "[clipped: " in "".join(texts(fitted.messages))
    assert fitted.report.upper_tokens <= fitted.report.budget.limit_tokens


@pytest.mark.parametrize("format_name", [None, *(wire.name for wire in FORMATS)])
def test_an_empty_list_is_empty(format_name: str | None) -> None:
    """Nothing in, nothing out, in any format."""
    fitted = fit([], window=WINDOW, format=format_name)

    assert fitted.messages == []
    assert fitted.report.tokens_after == fitted.report.tokens_before == 0
    assert fitted.report.explain()


def test_instructions_alone_are_given_back() -> None:
    """A list of nothing but instructions has nothing to fold."""
    messages = [{"role": "system", "content": "Be brief."}]

    assert fit(messages, window=WINDOW).messages == messages


def test_what_is_no_message_is_refused() -> None:
    """A wrong name, a wrong item and a wrong list are errors that say what to do."""
    with pytest.raises(UnknownFormat, match="choose one of these names"):
        fit([], window=WINDOW, format="openai")
    with pytest.raises(BrokenInput, match="give a dict"):
        fit([3], window=WINDOW)
    with pytest.raises(BrokenInput, match="give a list of messages"):
        fit("hello", window=WINDOW, format="openai-chat")


# Policies.


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_works_by_name(name: str) -> None:
    """S1.9: a preset's name and its policy give the same, acceptable to the provider and inside the window."""
    messages = history(turns=9)
    named, given = (
        fit(messages, window=64_000 if name == "turn-window" else 24_000, policy=p) for p in (name, preset(name))
    )

    assert named == given
    assert named.report.policy == name
    assert problems(OPENAI_CHAT, named.messages) == ()
    assert named.report.upper_tokens <= named.report.budget.limit_tokens


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"infold"}))
def test_a_documents_own_rule_is_no_exact_count(name: str) -> None:
    """B8: where a preset counts characters, its tokens are an estimate, with the margin of one."""
    counting = fit(history(), model="gpt-4o", policy=name).report.counting

    assert not counting.is_exact
    assert counting.margin == 1.17


def test_an_unknown_preset_is_told() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(UnknownPreset, match="choose one of infold"):
        fit(history(), window=WINDOW, policy="fastest")


# Recall.


@pruned_or_folded
@pytest.mark.parametrize("turns", [4, 12])
def test_handles_are_named_only_where_recall_is_offered(turns: int, policy: Policy) -> None:
    """B6: with `recall` a stub or a fold tells how to ask for what it stands for; without, it names no way that is not there."""
    with_recall, without = (
        "\n".join(texts(fit(history(turns=turns), window=WINDOW, policy=policy, recall=recall).messages))
        for recall in (True, False)
    )

    assert re.search(r"recall", with_recall)
    assert re.search(r"\d+\.\d+[\]]", with_recall)
    assert not re.search(r"recall|\[\d+\.\d+\]", without)
