"""I18: shortening splits no character and no structure, a scratchpad is taken out, and what was cut off is not kept."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold import fit
from infold.core.clip import choose_clips
from infold.core.entries import Clip, Handle
from infold.core.judge import Answer, judge
from infold.core.logged_message import Rendering, clip_part, prune_part
from infold.core.messages import Message, TextPart, ToolCallPart, ToolResultPart
from infold.formats.registry import OPENAI_CHAT, WireFormat
from infold.testing.builders import calls, log_of, numbered, result, user

from .scenes import EXAMPLES, GOOD_NOTES, Notetaker, conversation, each_preset, each_wire, opened, told_of, written

WHOLE = ("👩‍🚀", "🏴‍☠️", "é", "ä̈", "数据", "한국", "😀", "a", "\n")
texts = st.lists(st.sampled_from(WHOLE), min_size=1, max_size=400).map("".join)


@pytest.mark.slow
@EXAMPLES
@given(st.lists(st.sampled_from(WHOLE), min_size=80).map("".join), st.integers(1, 30), st.integers(1, 30))
def test_i18_clipping_keeps_whole_characters(text: str, head: int, tail: int) -> None:
    """B8: what is left of a clipped text is its own beginning and end, and can be written as UTF-8."""
    shown = clip_part(TextPart(text), Clip(Handle("0.0"), head, tail), Rendering())

    assert isinstance(shown, TextPart)
    assert shown.text.encode()
    assert text.startswith(shown.text.split("\n[clipped: ")[0])
    assert text.endswith(shown.text.rsplit("]\n", 1)[1])


def test_i18_a_clip_is_chosen_by_characters() -> None:
    """B8: where a result of wide characters is too large, the clip that is chosen cuts between them."""
    log = log_of(numbered([user("Look."), calls("bash"), result(output="数据😀" * 5_000)]))
    (clip,) = choose_clips(log, excess_tokens=4_000, own_tokens=4_000)

    assert clip is not None
    assert 0 < clip.head_chars + clip.tail_chars < 15_000
    shown = clip_part(log.live[2].message.parts[0], clip, Rendering())
    assert isinstance(shown, ToolResultPart)
    assert set(shown.output.split("\n[clipped: ")[0]) == set("数据😀")


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=20), texts.map(lambda text: text * 9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


@pytest.mark.slow
@EXAMPLES
@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_i18_pruned_arguments_keep_their_shape(arguments: dict[str, object]) -> None:
    """B24: a call whose arguments were pruned is valid JSON with the same keys and lengths, only long texts replaced."""
    part = prune_part(ToolCallPart("c", "write", json.dumps(arguments)), Handle("0.0"), Rendering())

    assert isinstance(part, ToolCallPart)
    assert shape(json.loads(part.arguments)) == shape(arguments)


def shape(value: object) -> object:
    """A value with its texts told by their kind alone."""
    match value:
        case str():
            return "text"
        case dict():
            return {key: shape(inner) for key, inner in value.items()}
        case list():
            return [shape(inner) for inner in value]
        case _:
            return value


@each_wire
@pytest.mark.parametrize("window", [900, 1_700, 3_100])
def test_i18_every_request_can_be_sent(wire: WireFormat, window: int) -> None:
    """B8, B12: a history of many scripts that was clipped, pruned and folded is JSON without a broken character."""
    drafts: list[Message] = [user("Look. " + "👩‍🚀数据 " * 50)]
    for _ in range(6):
        drafts += [calls("bash"), result(output="数据😀é " * 400)]
    fitted = fit(written(wire, numbered(drafts)), window=window, format=wire.name)

    assert fitted.report.changed
    assert "\ufffd" not in msgspec.json.encode(fitted.messages).decode()


@pytest.mark.parametrize("tag", ["analysis", "thinking", "scratchpad", "think"])
def test_i18_the_scratchpad_is_taken_out(tag: str) -> None:
    """B5: what a model thought aloud is not part of the summary; an answer that is nothing else is empty."""
    head = numbered([user("Port the parser with make, part by part. " * 50)])
    thought = f"<{tag}>Perhaps I should\nlook at the harbour first.</{tag}>\n"
    verdicts = [
        judge(Answer(text), head, replaced_tokens=600, answer_tokens=60)
        for text in (thought + GOOD_NOTES, f"<{tag}>I never came to an end {GOOD_NOTES}")
    ]

    assert (verdicts[0].text, verdicts[0].is_accepted) == (GOOD_NOTES, True)
    assert (verdicts[1].is_accepted, verdicts[1].faults) == (False, ("empty",))


@each_preset
def test_i18_a_summary_that_hit_its_cap_is_not_kept(name: str) -> None:
    """B5: however good it reads, an answer that ended for length stands nowhere."""
    notes = Notetaker(Answer(GOOD_NOTES, "length"))
    session = opened(name, OPENAI_CHAT, window=64_000, notes=notes)
    session.prepare_new(written(OPENAI_CHAT, conversation(40, tokens=12, reply_tokens=900)))
    ready = session.compact()

    assert session.log.checkpoint is not None
    assert session.log.checkpoint.narrative == ""
    assert GOOD_NOTES not in told_of(ready)
