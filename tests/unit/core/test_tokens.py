"""How large content is, and how a provider's reports correct that."""

import pytest

from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    MessageId,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.policy import EstimateRule, preset
from infold.core.tokens import (
    CALL_OVERHEAD_TOKENS,
    LARGEST_FACTOR,
    MESSAGE_OVERHEAD_TOKENS,
    NO_SIZE,
    SMALLEST_FACTOR,
    UNCALIBRATED,
    Calibration,
    Size,
    estimate,
    estimate_tokens,
    measure,
    measure_message,
    measure_part,
    size_of,
    token_ruler,
    tokens_in,
    total_size,
)
from infold.testing.builders import tokens_of_text

HERE = MessageId("m0")
CHINESE = "把旧的历史压缩成摘要，并保留最近的六轮对话。"


@pytest.mark.parametrize(("characters", "rounded", "raised"), [(0, 0, 0), (1, 0, 1), (2, 1, 1), (5, 1, 2), (10, 3, 3)])
def test_the_documents_divide_by_four(characters: int, rounded: int, raised: int) -> None:
    """S7.1: of 0, 1, 2, 5 and 10 characters 1.1.23 makes 0, 0, 1, 1, 3 tokens and 1.1.57 makes 0, 1, 1, 2, 3."""
    text = "x" * characters

    assert estimate(text, preset("opencode-1.1.23").estimate) == rounded
    assert estimate(text, preset("proactive").estimate) == rounded
    assert estimate(text, preset("opencode-1.1.57").estimate) == raised
    assert estimate(text, preset("turn-window").estimate) == raised


@pytest.mark.parametrize(("characters", "expected"), [(4_000, 1_000), (20_000, 5_000), (0, 0)])
def test_opencode_estimates(characters: int, expected: int) -> None:
    """S7.1, S1.9: the cases of OpenCode's own suite."""
    assert estimate("a" * characters, preset("opencode-1.18").estimate) == expected


@pytest.mark.parametrize(
    ("text", "units"),
    [("é", 1), ("汉字", 2), ("😀", 2), ("a😀b", 4), ("👩‍👩‍👧", 8), ("\ud800", 1), ("\U0010ffff" * 3, 6)],
)
def test_characters_are_utf16_units(text: str, units: int) -> None:
    """S7.1: the documents count UTF-16 code units, so a character beyond the first plane is two."""
    assert measure(text, "round") == measure(text, "ceil") == units
    assert estimate(text, "round") == (units + 2) // 4
    assert estimate(text, "ceil") == -(-units // 4)


@pytest.mark.parametrize("rule", ["features", "round", "ceil"])
def test_nothing_is_nothing(rule: EstimateRule) -> None:
    """S7.1: an empty text has no tokens by any rule."""
    assert estimate("", rule) == 0


def test_sums_are_divided_once() -> None:
    """S7.1: measures add up exactly; a whole history is divided as one, not text by text."""
    texts = ["x", "x", "x"]

    assert tokens_in(sum(measure(text, "round") for text in texts), "round") == estimate("xxx", "round") == 1
    assert tokens_in(17, "features") == 17


def test_built_text_has_the_size_it_says() -> None:
    """S7.1: four characters are one token by both of the documents' rules."""
    assert estimate(tokens_of_text(9_000), "round") == estimate(tokens_of_text(9_000), "ceil") == 9_000


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (TextPart("x" * 40), 40),
        (TextPart("x" * 40, ignored=True), 0),
        (ReasoningPart("x" * 40), 40),
        (ReasoningPart("x" * 40, provider_data='"sealed"'), 40),
        (ReasoningPart("", provider_data=("x" * 50)), 40),
        (ToolCallPart("c", "bash", "x" * 36), 40),
        (ToolResultPart("c", "bash", "x" * 40), 40),
        (ToolResultPart("c", "bash", "x" * 40, files=(FilePart("image/png", 100),)), 440),
        (FilePart("image/png", 100), 400),
        (StepStartPart("tree"), 0),
        (StepFinishPart("stop", "tree"), 0),
        (CompactionPart("p", True), 0),
    ],
)
def test_what_a_part_takes_by_the_documents(part: Part, expected: int) -> None:
    """S7.1: a document counts text alone, in UTF-16 units; what is never sent takes nothing."""
    assert measure_part(part, "round") == measure_part(part, "ceil") == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (TextPart("hello there"), estimate_tokens("hello there")),
        (ToolCallPart("c", "bash", "{}"), estimate_tokens("{}") + estimate_tokens("bash") + CALL_OVERHEAD_TOKENS),
        (ToolResultPart("c", "bash", "fine"), estimate_tokens("fine") + CALL_OVERHEAD_TOKENS),
        (FilePart("image/png", 1_600), 1_600),
        (ReasoningPart("", provider_data=("x" * 500)), 100),
    ],
)
def test_what_a_part_takes_by_ours(part: Part, expected: int) -> None:
    """B8, B15: `infold` counts frames, media at their real cost, and what sealed reasoning stands for."""
    assert measure_part(part, "features") == expected


def count_words(text: str) -> int:
    """A tokeniser of somebody's own."""
    return len(text.split())


def test_an_exact_tokeniser_may_take_the_rules_place() -> None:
    """B15: a session may measure by a tokeniser, which counts in tokens as the feature model does."""
    assert measure("one two three", count_words) == estimate("one two three", count_words) == 3
    assert measure_part(ToolResultPart("c", "bash", "one two"), count_words) == 2 + CALL_OVERHEAD_TOKENS
    assert token_ruler(count_words) is count_words


@pytest.mark.parametrize("rule", ["features", "round", "ceil"])
def test_what_is_sent_is_bounded_in_tokens(rule: EstimateRule) -> None:
    """B8: beside a document's rule, which counts characters, our own estimate stands."""
    assert token_ruler(rule) == "features"


def test_sizes_by_kind() -> None:
    """B15: words are prose, tool input and output and media are material, and what is not ASCII is wide."""
    reply = AssistantMessage(
        HERE,
        (
            ReasoningPart("thinking"),
            TextPart("said"),
            ToolCallPart("c", "bash", "{}"),
            ToolCallPart("d", "say", CHINESE),
        ),
    )
    answer = ToolMessage(HERE, (ToolResultPart("c", "bash", "out"), ToolResultPart("d", "say", CHINESE)))
    asked = UserMessage(HERE, (TextPart(CHINESE), FilePart("image/png", 9)))

    frame, call = MESSAGE_OVERHEAD_TOKENS, CALL_OVERHEAD_TOKENS
    assert size_of(reply, (1, 2, 14, 18)) == Size(3 + frame, 14, 18, loose=frame + 1 + 2 * call)
    assert size_of(answer, (16, 32)) == Size(frame, 16, 32, loose=frame + 2 * call)
    assert size_of(asked, (64, 9)) == Size(frame, 9, 64, loose=frame + 9)


def test_media_in_a_result_are_loose() -> None:
    """I13: what a picture costs is estimated high, so no report is held to it."""
    seen = ToolMessage(HERE, (ToolResultPart("c", "look", "see", files=(FilePart("image/png", 500),)),))
    measures = measure_message(seen, "features")

    assert size_of(seen, measures).loose == MESSAGE_OVERHEAD_TOKENS + CALL_OVERHEAD_TOKENS + 500
    assert size_of(seen, measures).measure == MESSAGE_OVERHEAD_TOKENS + sum(measures)


def test_wide_reasoning_is_wide() -> None:
    """B15: reasoning in Chinese is counted with what is written outside ASCII."""
    thought = AssistantMessage(HERE, (ReasoningPart(CHINESE),))

    assert size_of(thought, measure_message(thought, "features")).wide == estimate_tokens(CHINESE)


def test_sizes_add_and_subtract() -> None:
    """B17: sums of sizes are kept by adding and taking away, kind by kind."""
    both = Size(1, 2, 3, 1).plus(Size(10, 20, 30, 4))

    assert both == Size(11, 22, 33, 5)
    assert both.minus(Size(1, 2, 3, 1)) == Size(10, 20, 30, 4)
    assert both.measure == 66


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([Size(prose=900)], id="prose"),
        pytest.param([Size(material=5_000)], id="material"),
        pytest.param([Size(wide=700)], id="wide"),
        pytest.param([Size(400, 4_000, 300)], id="mixed"),
        pytest.param([Size(prose=900), Size(material=5_000), Size(200, 3_000)], id="in turn"),
    ],
)
def test_ten_reports_correct_a_constant_error(sizes: list[Size]) -> None:
    """B15: where the provider counts 1.3 times the estimate, ten reports leave an error of less than 3 %."""
    calibration = UNCALIBRATED
    for number in range(10):
        size = sizes[number % len(sizes)]
        calibration = calibration.learn(size, round(1.3 * size.measure))

    whole = NO_SIZE
    for size in sizes:
        whole = whole.plus(size)
    assert calibration.apply(whole) == pytest.approx(1.3 * whole.measure, rel=0.03)
    assert calibration.reports == 10


@pytest.mark.parametrize(
    ("size", "reported"),
    [
        (NO_SIZE, 100),
        (Size(prose=100), 0),
        (Size(prose=100), -50),
        (Size(material=40, loose=20), 25),
        (Size(prose=60, loose=4), 62),
    ],
)
def test_what_tells_nothing_teaches_nothing(size: Size, reported: int) -> None:
    """B15: growth that is not positive, by nothing, of little text, or mostly by frames is ignored."""
    assert UNCALIBRATED.learn(size, reported) is UNCALIBRATED


@pytest.mark.parametrize(("reported", "material"), [(980, 1.0), (1_020, 1.0), (979, 0.99), (1_200, 1.1)])
def test_what_frames_explain_is_no_error_of_the_text(reported: int, material: float) -> None:
    """B8, B15: a provider with smaller frames than ours does not make large texts look smaller."""
    learned = UNCALIBRATED.learn(Size(material=1_000, loose=20), reported)

    assert learned.material == pytest.approx(material, abs=0.001)
    assert learned.reports == 1


def test_a_mistaken_report_is_held_within_bounds() -> None:
    """B15: no report moves a factor out of the span of known tokenisers."""
    up = down = UNCALIBRATED
    for _ in range(20):
        up = up.learn(Size(100, 100, 100), 1_000_000)
        down = down.learn(Size(100, 100, 100), 1)

    assert (up.prose, up.material, up.wide) == (LARGEST_FACTOR,) * 3
    assert (down.prose, down.material, down.wide) == (SMALLEST_FACTOR,) * 3


def test_an_uncalibrated_estimate_stands() -> None:
    """S7.2: without any report the estimate is what it was."""
    assert UNCALIBRATED.apply(Size(1, 2, 3)) == 6
    assert Calibration(2.0, 1.0, 0.5).apply(Size(10, 10, 10)) == 35


def test_sizes_add_up() -> None:
    """B17: many at once are what they are one by one, kind by kind."""
    sizes = [Size(1, 2, 3, 4), Size(prose=10), Size(wide=5, loose=1)]

    assert total_size(sizes) == sizes[0].plus(sizes[1]).plus(sizes[2]) == Size(11, 2, 8, 5)
    assert total_size([]) == NO_SIZE
