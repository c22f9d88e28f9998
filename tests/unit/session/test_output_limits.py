"""A session whose requests ask for much output: what is kept of the window, and what follows from refusals and long replies."""

from typing import Any

import pytest
from msgspec.structs import replace

from infold import AskedOutput, Session, SessionSettings, open_store
from infold.core.events import Compacted, Event, OutputLowered, Rejected
from infold.core.policy import INFOLD
from infold.errors import WindowExceeded
from infold.session.report import Ready

Item = dict[str, Any]

WINDOW, OUTPUT = 60_000, 32_000
SYSTEM = "Count each ship once and tell where it lies. " * 2_950
TASK: Item = {"role": "user", "content": "Count the ships. Never guess."}
SHIPS = "Anna 123 of Husum, 44 m, berth 3, leaves at 12:15\n"
REFUSED = "maximum context length is {0} tokens. However, you requested {1} tokens ({2} in the messages, {3} in the completion)"


class Driven:
    """A session that a test prepares and records, and its events."""

    def __init__(self, **given: Any) -> None:
        self.events: list[Event] = []
        policy = given.pop("policy", replace(INFOLD, priced="never"))
        settings = SessionSettings(window=WINDOW, recovers=True, policy=policy, on_event=self.events.append)
        self.session = Session(open_store("memory"), "s", replace(settings, **given))
        self.messages = [TASK]

    def prepare(self, **given: Any) -> Ready:
        """Prepare the next request."""
        return self.session.prepare(self.messages, **{"system": SYSTEM, "output_tokens": OUTPUT, **given})

    def reply(self, finish: str = "stop", usage: Item | None = None, words: str = "So far 44.") -> None:
        """Record a reply, and let the user say more."""
        message = {"role": "assistant", "content": words}
        self.session.record(
            {"choices": [{"message": message, "finish_reason": finish}], **({"usage": usage} if usage else {})}
        )
        self.messages += [message, {"role": "user", "content": "Go on. " + SHIPS * 30}]

    def kinds(self) -> list[type[Event]]:
        """What happened."""
        return [type(event) for event in self.events]


def test_less_output_is_asked_for_if_both_do_not_fit() -> None:
    """B8, B58: a request that asks for too much is told how much to ask for, and reports it; any other is not."""
    driven = Driven()
    roomy, tight = driven.prepare(system="Be brief."), driven.prepare()

    assert (roomy.output_tokens, roomy.events) == (OUTPUT, ())
    assert 4_096 < tight.output_tokens < OUTPUT
    assert tight.events == (OutputLowered("s", OUTPUT, tight.output_tokens),)
    assert driven.prepare(output_tokens=0).output_tokens == 0
    assert f"asks for {tight.output_tokens:,} tokens of output, not 32,000" in tight.explain()
    assert driven.prepare(output_tokens=AskedOutput(OUTPUT, 28_000)).output_tokens == 29_024


def test_off_is_off() -> None:
    """S1.1: with automatic work switched off, the output that is asked for stays as it is."""
    assert Driven(policy=replace(INFOLD, auto=False)).prepare().output_tokens == OUTPUT


@pytest.mark.parametrize("usage", [None, "as sent"])
def test_a_reply_cut_off_by_the_lowering_forces_no_fold(usage: str | None) -> None:
    """B8, B58: a reply that ends for length at the lowered limit is no reason to fold, whether or not usage is reported."""
    driven = Driven()
    for _ in range(20):
        driven.prepare(output_tokens=0)
        driven.reply()
    sent = driven.prepare().output_tokens
    counts = {"prompt_tokens": 30_000, "completion_tokens": sent, "total_tokens": 30_000 + sent}
    driven.reply("length", counts if usage else None)
    driven.prepare(output_tokens=0 if usage is None else OUTPUT)

    assert sent < OUTPUT
    assert not any(isinstance(event, Compacted) and event.reason == "forced" for event in driven.events)
    if usage is None:
        assert Compacted not in driven.kinds()


def test_a_reply_cut_off_by_the_window_forces_a_fold() -> None:
    """S3.4: a reply that ends for length before the limit it was asked for has no room, and the next request makes some."""
    driven = Driven()
    for _ in range(20):
        driven.prepare(output_tokens=0)
        driven.reply()
    driven.prepare(output_tokens=0)
    driven.reply("length")
    driven.prepare(output_tokens=0)

    assert [event.reason for event in driven.events if isinstance(event, Compacted)] == ["forced"]


def test_a_refusal_for_the_output_folds_nothing_that_fits() -> None:
    """B8, B58: if the provider's limit has room for the prompt, the request is sent again asking for less, and nothing is cut."""
    driven = Driven(window=2 * WINDOW)
    first = driven.prepare()
    again = driven.session.recover({"error": {"message": REFUSED.format(WINDOW, 61_500, 29_500, OUTPUT)}})

    assert again is not None
    assert (first.output_tokens, again.messages) == (OUTPUT, first.messages)
    assert 4_096 <= again.output_tokens <= WINDOW - 29_500
    assert driven.kinds() == [Rejected, OutputLowered]
    with pytest.raises(WindowExceeded):
        driven.session.recover({"error": {"message": REFUSED.format(WINDOW, 61_500, 29_500, OUTPUT)}})


def test_a_total_is_not_taken_for_the_prompt() -> None:
    """B11, B58: some providers report prompt and output as one number, which does not make the estimate too low."""
    driven = Driven(window=2 * WINDOW)
    total = driven.prepare().gauge.upper_tokens + OUTPUT
    again = driven.session.recover({"error": {"message": f"exceeded model token limit: {WINDOW} (requested: {total})"}})

    assert again is not None
    assert driven.session.log.limits.factor == pytest.approx(1.0, abs=0.05)
    assert (again.messages, Compacted in driven.kinds()) == ([TASK], False)


def test_a_refusal_folds_to_the_real_window() -> None:
    """B8, B58: a prompt that is larger than the real window is folded to it, whatever output is asked for."""
    driven = Driven(window=2 * WINDOW)
    for _ in range(60):
        driven.prepare(output_tokens=0)
        driven.reply()
    large = driven.prepare()
    again = driven.session.recover({"error": {"message": REFUSED.format(WINDOW, 99_000, 67_000, OUTPUT)}})

    assert again is not None
    assert large.gauge.upper_tokens > WINDOW > again.gauge.upper_tokens + again.output_tokens
    assert again.limit_tokens == 51_000
    assert Compacted in driven.kinds()


def test_the_same_request_is_not_sent_twice() -> None:
    """B9: a refusal after which neither prompt nor output can be less is raised."""
    driven = Driven()
    driven.prepare(output_tokens=3_000)
    with pytest.raises(WindowExceeded):
        driven.session.recover({"error": {"message": "prompt is too long: 33000 tokens > 60000 maximum"}})


def test_a_prompt_without_room_folds_nothing() -> None:
    """B8, B58: where system prompt and tools alone are over the limit, no compaction is written for the error that follows."""
    driven = Driven(window=32_000)
    for _ in range(20):
        driven.prepare(system="Be brief.")
        driven.reply()
    stored = driven.session.log.next_sequence
    with pytest.raises(WindowExceeded, match="system prompt and tools"):
        driven.prepare()

    assert driven.session.log.next_sequence == stored + 1
    assert Compacted not in driven.kinds()


@pytest.mark.parametrize("preset", ["opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive"])
@pytest.mark.parametrize(("window", "output"), [(100_000, 4_000), (100_000, 32_000), (200_000, 64_000)])
def test_documents_presets_leave_room_for_all_that_is_asked_for(preset: str, window: int, output: int) -> None:
    """S1.0: a document's preset has the limit it had: the window less the output that is asked for, which is sent as it is."""
    driven = Driven(window=window, policy=preset)
    ready = driven.prepare(output_tokens=output)

    assert ready.limit_tokens == window - output
    assert ready.output_tokens == output


def test_a_documents_preset_is_not_switched_off() -> None:
    """B8, B58: if all that is asked for would leave less than the prompt needs, a document's preset keeps the window as well."""
    ready = Driven(policy="opencode-1.18").prepare()

    assert ready.limit_tokens == WINDOW
    assert ready.gauge.upper_tokens + ready.output_tokens <= WINDOW
