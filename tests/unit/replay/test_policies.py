"""Each policy as the requests it would have sent."""

import pytest
from msgspec.structs import replace

from infold.core.gauge import Rates
from infold.core.messages import Message, ToolResultPart, Usage, calls_of, results_of, text_of
from infold.core.policy import PRESETS
from infold.errors import UnknownPreset
from infold.replay.calls import find_calls
from infold.replay.policies import OTHER_MEMORIES, POLICY_NAMES, PolicyRequest, ReplaySetup, check_policies, make_runner
from infold.testing.builders import numbered, replies, user
from infold.transcripts.record import RecordedCompaction

from .recorded import OPENING, session, setup, timed, with_usage, work

WINDOW = 10_000


def played(name: str, on: ReplaySetup, window: int = WINDOW) -> list[PolicyRequest]:
    """The requests of a policy whose provider reports what it was sent."""
    runner = make_runner(name, on, window)
    requests = []
    for call in on.recording.calls:
        request = runner.request(call)
        requests.append(request)
        runner.record_reply(call, Usage(input=tokens(on, request), output=20))
    return requests


def tokens(on: ReplaySetup, request: PolicyRequest) -> int:
    """The size of a request."""
    return sum(block.tokens for block in request.sent.opening) + on.counter.tokens(request.sent.messages)


def test_every_preset_and_baseline_has_a_name() -> None:
    """The names are those of the presets, of doing nothing, of the record and of the simple rules."""
    assert set(POLICY_NAMES) == {*PRESETS, *OTHER_MEMORIES, "none", "as-recorded", "last-n", "mask-all", "mask-keep-10"}
    with pytest.raises(UnknownPreset, match="as-recorded"):
        check_policies(("infold", "wishful"))


def test_none_sends_everything() -> None:
    """Doing nothing sends the whole history, whatever the window."""
    on = setup(work())
    last = played("none", on)[-1]

    assert [message.id for message in last.sent.messages] == [m.id for m in on.recording.session.messages[:-1]]


def test_infold_keeps_inside_the_window_without_a_model() -> None:
    """Each request fits, prunings and folds happen, and no summariser is asked."""
    on = setup(work(steps=60))
    requests = played("infold", on)

    assert max(tokens(on, request) for request in requests) <= WINDOW
    assert sum(request.prunings for request in requests) > 0
    assert sum(request.compactions for request in requests) > 0
    assert not any(request.summarised for request in requests)


@pytest.mark.parametrize("name", ["opencode-1.1.57", "turn-window"])
def test_document_preset_asks_a_summariser_for_each_fold(name: str) -> None:
    """What the summariser reads is the view before the fold, and the fold stands for its words."""
    turns = [part for turn in range(30) for part in (user(f"turn {turn}"), replies("word " * 700))]
    on = setup(timed(numbered([user(OPENING), replies(), *turns])))
    folded = [request for request in played(name, on) if request.compactions]

    assert folded
    assert all(len(request.summarised) == request.compactions for request in folded)
    assert all(on.counter.tokens(r.summarised[0].messages) > on.counter.tokens(r.sent.messages) for r in folded)


def test_recorded_usage_does_not_steer_a_policy() -> None:
    """Two records that differ in their usage alone are played alike."""
    plain, told = setup(work(20)), setup(with_usage(work(20), factor=2.4, overhead=90_000))

    assert [tokens(plain, request) for request in played("infold", plain)] == [
        tokens(told, request) for request in played("infold", told)
    ]


def test_priced_policy_makes_room_while_the_cache_is_cold_anyway() -> None:
    """A pause beyond the cache's lifetime makes a cut free, so that it comes before the window asks for it."""
    messages = work(steps=40)
    late = [replace(message, created_ms=(message.created_ms or 0) + 10**6) for message in messages[66:]]
    on = replace(setup([*messages[:66], *late]), rates=Rates(1.25, 0.0001, 10.0))

    def cuts(lifetime_ms: int) -> list[int]:
        requests = played("infold", replace(on, lifetime_ms=lifetime_ms), 40_000)
        return [number for number, request in enumerate(requests) if request.compactions or request.prunings]

    assert 33 in cuts(lifetime_ms=300_000)
    assert 33 not in cuts(lifetime_ms=3_600_000)


def test_preamble_and_overhead_are_in_every_request() -> None:
    """System messages that open a session and what is sent beside the messages never leave."""
    on = setup(work(steps=20), overhead=3_000)

    assert all(request.sent.opening[0].tokens == 3_000 for request in played("infold", on))


def test_masks_hide_old_results_and_last_n_the_oldest_messages() -> None:
    """The simple rules do what their names say."""
    on = setup(work(steps=20))

    masked, newest = played("mask-all", on)[-1], played("last-n", on)[-1]

    assert on.counter.tokens(masked.sent.messages) < 3_000
    assert OPENING not in [text_of(message) for message in newest.sent.messages]
    assert tokens(on, newest) <= 0.8 * WINDOW


def compacted(first_kept: int | None, summary: str, at: int = 9) -> ReplaySetup:
    """A recorded session with a compaction, and the usage of a much smaller prompt after it."""
    messages: list[Message] = [*work(steps=8)]
    if summary:
        messages.insert(at, replace(numbered([user(summary, synthetic=True)])[0], id=messages[0].id))
    on = setup(with_usage(timed(numbered([replace(m, id=type(m.id)("")) for m in messages]))), overhead=5_000)
    recorded = session(on.recording.session.messages, compactions=[RecordedCompaction(at, summary, None, first_kept)])
    return replace(on, recording=find_calls(recorded))


def test_recorded_summary_stands_before_what_it_kept() -> None:
    """After a recorded compaction the request is the summary, the kept tail, and what came since."""
    on = compacted(first_kept=7, summary="We ported half of it.")
    sent = next(request for request in played("as-recorded", on) if request.compactions).sent

    assert text_of(sent.messages[0]) == "We ported half of it."
    assert sent.messages[1] is on.recording.session.messages[7]


def test_opaque_compaction_is_sized_by_the_usage_after_it() -> None:
    """What nobody recorded is a block as large as the reported prompt leaves room for."""
    on = compacted(first_kept=None, summary="")
    after = next(request for request in played("as-recorded", on) if request.compactions)
    call = next(call for call in on.recording.calls if on.recording.compactions_before(call))

    assert call.usage is not None
    assert tokens(on, after) == pytest.approx(call.usage.prompt, abs=2)


def test_results_stay_with_their_calls_in_every_preset() -> None:
    """No preset parts a result from its call."""
    on = setup(timed(numbered([user(OPENING), *_steps()])))
    for name in (*PRESETS, "none"):
        for request in played(name, on):
            called = {call.call_id for m in request.sent.messages for call in calls_of(m)}
            assert {r.call_id for m in request.sent.messages for r in results_of(m)} <= called
            assert not any(isinstance(part, ToolResultPart) for part in request.sent.messages[0].parts)


def _steps() -> list[Message]:
    drafts = work(steps=14)[1:]
    return [replace(draft, id=type(draft.id)("")) for draft in drafts]
