"""Messages and parts: what is said, by whom, and what binds it."""

import msgspec
import pytest

from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    Message,
    MessageId,
    ModelRef,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    calls_of,
    is_compaction_request,
    is_genuine_user,
    is_signed,
    results_of,
    text_of,
)

ID = MessageId("m")


def test_prompt_is_all_that_was_sent() -> None:
    """S1.3: what was sent is input, cache reads and cache writes together."""
    assert Usage(input=5, cache_read=70, cache_write=11, output=9).prompt == 86


def test_the_provider_s_total_stands_for_the_window() -> None:
    """S1.3: a total that the provider gave is what stands in the window after the reply."""
    assert Usage(input=5, output=9, total=1_000).context == 1_000


@pytest.mark.parametrize("total", [None, 0])
def test_without_a_total_the_sum_stands(total: int | None) -> None:
    """S1.5: a total that is missing or 0 is replaced by the sum of the parts."""
    assert Usage(input=5, output=9, reasoning=4, cache_read=70, cache_write=11, total=total).context == 99


def test_text_leaves_out_what_is_never_sent() -> None:
    """A message's text is what a model would see of it: ignored text and other parts are not."""
    message = UserMessage(ID, (TextPart("a"), TextPart("note", ignored=True), FilePart("image/png", 9), TextPart("b")))

    assert text_of(message) == "a\nb"


def test_calls_and_results_keep_their_order() -> None:
    """Calls and results are picked from a message in the order they stand."""
    first, second = ToolCallPart("1", "bash", "{}"), ToolCallPart("2", "read", "{}")
    answers = (ToolResultPart("1", "bash", "x"), ToolResultPart("2", "read", "y"))

    assert calls_of(AssistantMessage(ID, (TextPart("t"), first, second))) == (first, second)
    assert results_of(ToolMessage(ID, (answers[0], TextPart("t"), answers[1]))) == answers


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (UserMessage(ID, (TextPart("fix it"),)), True),
        (UserMessage(ID, (FilePart("image/png", 100),)), True),
        (UserMessage(ID, (TextPart("reminder", synthetic=True), TextPart("fix it"))), True),
        (UserMessage(ID, (TextPart("reminder", synthetic=True),)), False),
        (UserMessage(ID, (TextPart("for people", ignored=True),)), False),
        (UserMessage(ID, (TextPart(" \n"),)), False),
        (UserMessage(ID, (ToolResultPart("1", "bash", "text of a tool"),)), False),
        (UserMessage(ID, (CompactionPart("c", auto=True),)), False),
        (AssistantMessage(ID, (TextPart("done"),)), False),
        (SystemMessage(ID, (TextPart("be good"),)), False),
    ],
)
def test_a_person_is_told_from_a_program(message: Message, expected: bool) -> None:
    """B2: only a user message with words or media that no program put there is somebody's own."""
    assert is_genuine_user(message) is expected


def test_own_text_is_asked_of_parts() -> None:
    """B26: whether text is somebody's own is decided by its marks, never by what it says."""
    assert is_genuine_user(UserMessage(MessageId("m0"), (TextPart("[Conversation Summary] …"),)))
    assert not is_genuine_user(UserMessage(MessageId("m0"), (TextPart("please go on", synthetic=True),)))
    assert not is_genuine_user(UserMessage(MessageId("m0"), ()))


def test_a_request_to_compact_is_known_by_its_part() -> None:
    """B26: a compaction request is a user message that carries the part; the same part elsewhere asks for nothing."""
    part = CompactionPart("c", auto=False)

    assert is_compaction_request(UserMessage(ID, (TextPart("x"), part)))
    assert not is_compaction_request(UserMessage(ID, (TextPart("/compact"),)))
    assert not is_compaction_request(AssistantMessage(ID, (part,)))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (ReasoningPart("hm", '{"signature":"s"}'), True),
        (ToolCallPart("1", "bash", "{}", '"thought"'), True),
        (ReasoningPart("hm"), False),
        (ToolCallPart("1", "bash", "{}"), False),
        (TextPart("signed"), False),
    ],
)
def test_a_seal_is_provider_data_on_reasoning_or_calls(part: Part, expected: bool) -> None:
    """B12: a message is bound to its surroundings when its reasoning or calls carry the provider's own data."""
    assert is_signed(AssistantMessage(ID, (TextPart("t"), part))) is expected


def test_every_part_survives_its_stored_form() -> None:
    """B1: a message with every kind of part is read back as it was."""
    parts: tuple[Part, ...] = (
        TextPart("t", synthetic=True),
        ReasoningPart("r"),
        ToolCallPart("1", "bash", '{"a":'),
        ToolResultPart("1", "bash", "o", "error", 2, 10, 20, (FilePart("image/png", 3, "a.png", "ref", 99),)),
        FilePart("application/pdf", 7),
        StepStartPart("tree"),
        StepFinishPart("tool-calls", "tree", Usage(input=1), 0.5),
        CompactionPart("c", auto=True, overflow=True, first_kept_id=MessageId("k")),
    )
    message = AssistantMessage(ID, parts, finish="stop", usage=Usage(output=3))

    assert msgspec.json.decode(msgspec.json.encode(message), type=AssistantMessage) == message


def test_a_model_is_named_with_its_provider() -> None:
    """B15: one model may have other limits and prices elsewhere; without a provider its own name is all there is."""
    assert ModelRef("openai", "gpt-5").full_name == "openai/gpt-5"
    assert ModelRef("", "gpt-5").full_name == "gpt-5"
