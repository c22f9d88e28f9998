"""Stubs: how hidden parts look, and how they are shown again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.entries import Clip, Clipping, Entry, Handle, MessageEntry, Pruning, Restoration
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import (
    LONGEST_KEPT_VALUE,
    Rendering,
    clip_part,
    is_clippable,
    is_prunable,
    prune_part,
    repeats_stub,
)
from infold.core.messages import (
    CompactionPart,
    FilePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.errors import UnknownReference
from infold.testing.builders import calls, replies, result, session, user

AT = Handle("3.0")
PLAIN, OFFERS_RECALL, DOCUMENT = (
    Rendering(),
    Rendering(recall=True),
    Rendering(stub="[Old tool result content cleared]"),
)
LARGE = "x" * (LONGEST_KEPT_VALUE + 1)


def output_of(part: Part) -> str:
    """What a result shows."""
    assert isinstance(part, ToolResultPart)
    return part.output


def arguments_of(part: Part) -> object:
    """What a call's arguments decode to."""
    assert isinstance(part, ToolCallPart)
    return json.loads(part.arguments)


def pruned(arguments: object, rendering: Rendering = PLAIN) -> object:
    """Arguments as they look once pruned."""
    return arguments_of(prune_part(ToolCallPart("1", "write", json.dumps(arguments)), AT, rendering))


# Stubs.


def test_the_same_part_gives_the_same_bytes() -> None:
    """B29: a stub depends on its part alone, so that the provider's cached prefix holds."""
    part = ToolResultPart("1", "bash", LARGE, files=(FilePart("image/png", 9),))

    assert prune_part(part, AT, OFFERS_RECALL) == prune_part(part, AT, OFFERS_RECALL)
    assert output_of(prune_part(part, AT, PLAIN)) == "[pruned: 401 characters of bash output]"


def test_a_handle_is_named_only_where_recall_is_offered() -> None:
    """B6: a stub tells the handle exactly when the request offers recall."""
    for part in (ToolResultPart("1", "", LARGE), ToolCallPart("1", "w", json.dumps({"a": LARGE}))):
        assert "recall 3.0" in str(prune_part(part, AT, OFFERS_RECALL))
        assert "recall" not in str(prune_part(part, AT, PLAIN))
    for clipped in (TextPart(LARGE), ToolResultPart("1", "", LARGE), FilePart("image/png", 9)):
        assert "recall 3.0" in str(clip_part(clipped, Clip(AT, 5, 5), OFFERS_RECALL))
        assert "recall" not in str(clip_part(clipped, Clip(AT, 5, 5), PLAIN))


def test_a_document_s_stub_is_its_own_text() -> None:
    """S4.3: a preset's stub stands word for word where the output was, and the pair stays whole."""
    part = prune_part(ToolResultPart("1", "bash", LARGE, exit_status=2), AT, DOCUMENT)

    assert part == ToolResultPart("1", "bash", DOCUMENT.stub, exit_status=2)


def test_arguments_keep_their_shape() -> None:
    """B24: only large strings are replaced; keys, order, short values and nesting stay."""
    kept = {"path": "a.py", "n": 3, "f": 1.5, "on": True, "none": None, "short": "y" * LONGEST_KEPT_VALUE}
    stub = "[pruned: 401 characters]"

    assert pruned({**kept, "text": LARGE, "edits": [{"old": LARGE, "new": "z"}, [LARGE]]}) == {
        **kept,
        "text": stub,
        "edits": [{"old": stub, "new": "z"}, [stub]],
    }
    assert list(dict(json.loads(json.dumps(pruned({"b": LARGE, "a": 1}))))) == ["b", "a"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=LONGEST_KEPT_VALUE),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=10,
    )
)
def test_small_arguments_mean_the_same_after_pruning(value: object) -> None:
    """B24: arguments without a large string decode to what they were."""
    assert pruned({"value": value}) == {"value": value}


@pytest.mark.parametrize("arguments", ["", "{", LARGE, f'"{LARGE}"', f'["{LARGE}"]', '{"a":"' + LARGE, "[" * 100_000])
def test_what_is_no_object_is_left_alone(arguments: str) -> None:
    """B24: broken JSON, and JSON that is no object, stays byte for byte."""
    part = ToolCallPart("1", "write", arguments)

    assert prune_part(part, AT, PLAIN) == part


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (ToolResultPart("1", "bash", ""), True),
        (ToolResultPart("1", "bash", LARGE, "error"), False),
        (ToolResultPart("1", "bash", LARGE, "interrupted"), False),
        (ToolCallPart("1", "write", LARGE), True),
        (ToolCallPart("1", "write", "{}"), False),
        (ToolCallPart("1", "write", LARGE, '"signed"'), False),
        (TextPart(LARGE), False),
        (ReasoningPart(LARGE), False),
    ],
)
def test_what_may_be_pruned(part: Part, expected: bool) -> None:
    """B24: completed results and large unsealed calls may become stubs, nothing else."""
    assert is_prunable(part) is expected


@pytest.mark.parametrize("part", [TextPart(LARGE), ReasoningPart(LARGE), CompactionPart("c", auto=True)])
def test_other_parts_have_no_stub(part: Part) -> None:
    """What cannot be pruned is given back as it is."""
    assert prune_part(part, AT, PLAIN) is part


# Clips.


@given(st.text(max_size=300), st.integers(0, 120), st.integers(0, 120))
def test_a_clip_keeps_head_and_tail(text: str, head: int, tail: int) -> None:
    """A clipped text begins and ends as the whole did, by whole characters, and says how many are left out."""
    shown = output_of(clip_part(ToolResultPart("1", "bash", text), Clip(AT, head, tail), PLAIN))
    left_out = len(text) - head - tail

    assert shown == (
        text if left_out <= 0 else f"{text[:head]}\n[clipped: {left_out:,} characters]\n{text[head + left_out :]}"
    )
    assert shown.encode("utf-8").decode() == shown


def test_a_clip_never_splits_a_character() -> None:
    """Characters outside the basic plane stay whole at the edges of a clip."""
    part = clip_part(TextPart("😀" * 100), Clip(AT, 3, 2), PLAIN)

    assert part == TextPart("😀😀😀\n[clipped: 95 characters]\n😀😀")


def test_media_give_way_to_a_note() -> None:
    """I14: a clipped medium is a synthetic note with its name, or its type where it has none; in a result it says so too."""
    files = (FilePart("image/png", 1_500),)

    assert clip_part(FilePart("image/png", 1_500, "plan.png"), Clip(AT, 0, 0), PLAIN) == TextPart(
        "[left out: plan.png, 1,500 tokens]", synthetic=True
    )
    assert "image/png" in str(clip_part(files[0], Clip(AT, 0, 0), PLAIN))
    assert clip_part(ToolResultPart("1", "v", "ok", files=files), Clip(AT, 9, 9), PLAIN) == ToolResultPart(
        "1", "v", "ok\n[left out: image/png, 1,500 tokens]"
    )


@pytest.mark.parametrize(
    "part", [ReasoningPart("r" * 999), ToolCallPart("1", "w", LARGE), CompactionPart("c", auto=True)]
)
def test_what_must_stay_valid_is_not_clipped(part: Part) -> None:
    """B12: reasoning and calls are never shortened."""
    assert not is_clippable(part)
    assert clip_part(part, Clip(AT, 1, 1), PLAIN) is part


@pytest.mark.parametrize("part", [TextPart("t"), ToolResultPart("1", "v", ""), FilePart("image/png", 1)])
def test_what_may_be_clipped(part: Part) -> None:
    """Text, tool output and media may be shortened."""
    assert is_clippable(part)


# Shown again.

PRUNING, CLIPPING = (
    Pruning((Handle("2.0"), Handle("3.0")), 600),
    Clipping((Clip(Handle("3.0"), 9, 9), Clip(Handle("4.0"), 2, 2))),
)


def whole() -> Log:
    """A session with two results and a reply, nothing hidden."""
    return session(user(), calls("bash", "read"), result(300), result(300), replies("a long reply"))


def shown(log: Log) -> list[str]:
    """What the two results and the reply show."""
    parts = [log.shown(logged).parts[0] for logged in log.live[2:]]
    return [part.output if isinstance(part, ToolResultPart) else str(getattr(part, "text", "")) for part in parts]


def test_the_stored_output_is_untouched() -> None:
    """S2.8: the log keeps the output; the view alone shows the stub."""
    log = whole().append(PRUNING)

    assert [logged.message for logged in log.live] == [logged.message for logged in whole().live]
    assert shown(log)[0] == "[pruned: 1,200 characters of bash output]"


def test_undoing_shows_what_was_there() -> None:
    """B1: a pruning and a clipping can each be undone, and leave the session as it was."""
    for entry in (PRUNING, CLIPPING):
        back = whole().append(entry).append(Restoration(5))
        assert (shown(back), back.altered, back.measured) == (shown(whole()), {}, whole().measured)
        assert (back.freed, back.altered_at) == ({}, 6)


def test_undoing_one_leaves_the_other() -> None:
    """B1: of two entries that hide different parts of a session, each is undone by itself."""
    both = whole().append(PRUNING).append(CLIPPING)
    without_pruning, without_clipping = (
        both.append(Restoration(5)),
        whole().append(CLIPPING).append(PRUNING).append(Restoration(5)),
    )

    assert shown(without_pruning) == [shown(whole())[0], *shown(both)[1:]]
    assert shown(without_clipping)[2] == "a long reply"
    assert shown(without_clipping)[0].startswith("[pruned")


def test_one_message_may_be_hidden_twice_and_shown_in_steps() -> None:
    """B1: parts of one message hidden by different entries come back one entry at a time."""
    log = session(user(), calls("write", "edit", arguments=json.dumps({"text": LARGE})))
    both = log.append(Pruning((Handle("1.0"),), 90)).append(Pruning((Handle("1.1"),), 90))
    one = both.append(Restoration(2))

    assert one.shown(one.live[1]).parts[0] == log.live[1].message.parts[0]
    assert one.shown(one.live[1]).parts[1] == both.shown(both.live[1]).parts[1]
    assert one.append(Restoration(3)).altered == {}
    with pytest.raises(UnknownReference, match="name one that still hides something"):
        one.append(Restoration(2))


def test_undoing_the_later_of_two_shows_the_earlier_again() -> None:
    """B1: a part clipped and then pruned is clipped again once the pruning is undone."""
    clipped = whole().append(CLIPPING)

    assert shown(clipped.append(PRUNING).append(Restoration(6))) == shown(clipped)


def test_the_earlier_of_two_can_be_undone_under_the_later() -> None:
    """B1: undoing a clipping under a pruning shows nothing yet, but the pruning undone then shows everything."""
    both = whole().append(CLIPPING).append(PRUNING).append(Restoration(5))

    assert shown(both.append(Restoration(6))) == shown(whole())


@pytest.mark.parametrize("undone", [5, 6])
def test_a_session_read_back_shows_the_same(undone: int) -> None:
    """B13: after an undoing, the session in memory and the session read from its entries show the same."""
    log = whole()
    hidden = (CLIPPING, PRUNING, Restoration(undone))
    entries: list[Entry] = [*(MessageEntry(logged.message) for logged in log.live), *hidden]
    loaded = load(log.session_id, reversed(list(enumerate(entries))), log.rendering)
    appended = log.extend(hidden)

    assert shown(loaded) == shown(appended)
    assert loaded.next_sequence == appended.next_sequence


@pytest.mark.parametrize(
    ("part", "stub", "repeats"),
    [
        (TextPart("wrote [pruned: 1,200 characters of read output] to disk"), "", True),
        (ToolCallPart("c", "write", '{"content": "[clipped: 99 characters]"}'), "", True),
        (TextPart("[Output pruned]"), "[Output pruned]", True),
        (TextPart("[Output pruned]"), "", False),
        (ToolResultPart("c", "read", "[pruned: 9 characters]"), "", False),
    ],
)
def test_a_stub_is_known_when_it_is_repeated(part: Part, stub: str, repeats: bool) -> None:
    """B24: a stub's text in a reply is recognised, infold's own and a document's; what a tool returned is no reply."""
    assert repeats_stub(part, Rendering(stub=stub)) is repeats


def test_stubs_name_the_tool_that_takes_handles() -> None:
    """B43: where the recall tool has another name, stubs name it by that."""
    stub = output_of(prune_part(ToolResultPart("1", "bash", LARGE), AT, Rendering(recall="infold_recall")))
    assert stub.endswith("; infold_recall 3.0]")
