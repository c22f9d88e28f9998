"""The policy that was really at work, as far as the record tells it."""

from infold.core.messages import AssistantMessage, Message, Usage
from infold.replay.calls import Call
from infold.replay.scale import shrinks_between
from infold.replay.stage import Held, Request, Stage, opening_blocks


class RecordedPlayer:
    """The policy that was really at work: the recorded compactions, applied.

    What a compaction left that is not in the record (an opaque summary, files shown again) is a block of its own, sized by
    the usage of the first call after it. A prompt that shrank without a recorded reason is taken in the same way.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._kept: list[Message] = []
        self._opening = opening_blocks(stage)
        self._before: Call | None = None

    def request(self, call: Call) -> Request:
        """The messages that stood, behind whatever a compaction left."""
        recording = self._stage.recording
        messages, compactions = recording.session.messages, recording.compactions_before(call)
        shrinks = not compactions and self._before is not None and shrinks_between(self._before, call)
        before = Held(self._opening, tuple(self._kept))
        if compactions:
            self._fold(call)
        elif shrinks:
            self._kept = list(messages[call.start : call.end])
        else:
            self._kept += messages[call.start : call.end]
        if compactions or shrinks:
            self._carry(call)
        self._before = call
        return Request(
            Held(self._opening, tuple(self._kept)),
            compactions=len(compactions),
            prunings=int(shrinks),
            summarised=(before,) * len(compactions),
            summary_tokens=self._summary_tokens(call),
        )

    def hear(self, call: Call, usage: Usage) -> None:
        """The reply stands as it was recorded."""
        del usage
        self._kept.append(self._stage.recording.reply_to(call))

    def _fold(self, call: Call) -> None:
        """The newest compaction's summary first, then what it kept, then what came after it."""
        recording = self._stage.recording
        messages, newest = recording.session.messages, recording.compactions_before(call)[-1]
        start = newest.position if newest.first_kept is None else min(newest.first_kept, newest.position)
        told = [index for index in range(newest.position, call.end) if index in recording.artefacts]
        kept = [index for index in range(start, call.end) if index not in recording.artefacts]
        self._kept = [messages[index] for index in (*told, *kept)]

    def _carry(self, call: Call) -> None:
        """Size what the record does not show by the prompt that was reported."""
        weigher, shared = self._stage.weigher, self._stage.overhead.shared_tokens
        carried = self._stage.overhead.own_tokens
        if call.usage is not None:
            carried = max(0, call.usage.prompt - shared - weigher.tokens(self._kept))
        self._opening = (weigher.padding("shared", shared), weigher.padding(f"carried-{call.number}", carried))

    def _summary_tokens(self, call: Call) -> int | None:
        told = [found.summary for found in self._stage.recording.compactions_before(call) if found.summary]
        if not told:
            return None
        measured = [message for message in self._kept if _is_summary(message, told[-1])]
        return self._stage.weigher.tokens(measured) or None


def _is_summary(message: Message, summary: str) -> bool:
    texts = (getattr(part, "text", "") for part in message.parts)
    return not isinstance(message, AssistantMessage) and any(text.strip() == summary.strip() for text in texts)
