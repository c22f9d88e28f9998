"""Law: behind the provider's own summaries, a view shows thinking only behind what it was created behind."""

from hypothesis import given
from msgspec.structs import replace
from tests.support.strategies import histories, infold_situations

from infold.core.compact import NativeSummary, apply_step, checkpoint_for
from infold.core.entries import MessageEntry
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.logged_message import Rendering, is_sealed_reasoning
from infold.core.messages import AssistantMessage, Message, MessageId, ReasoningPart, SessionId, TextPart, UserMessage
from infold.core.plan import Fits, Stuck, Summarise, next_step
from infold.core.view import view

BEGINNING = UserMessage(MessageId("first"), (TextPart("Build it."),))


class Provider:
    """Knows what each of its summaries stands for, and what each thinking was created behind."""

    def __init__(self) -> None:
        self.stands_for: dict[MessageId, tuple[list[Message], list[MessageId]]] = {}
        self.created: dict[MessageId, tuple[list[Message], list[MessageId]]] = {}

    def read(self, request: tuple[Message, ...]) -> tuple[list[Message], list[MessageId]]:
        """Check a request, and return what it says with its summaries written out."""
        prefix: list[Message] = []
        seen: list[MessageId] = []
        for message in request:
            if message.id in self.stands_for:
                assert not prefix
                said, before = self.stands_for[message.id]
                prefix, seen = [*said], [*before]
                continue
            if any(map(is_sealed_reasoning, message.parts)):
                then, before = self.created[message.id]
                assert prefix == then
                assert before[len(before) - len(seen) :] == seen
                seen.append(message.id)
            told = tuple(part for part in message.parts if not isinstance(part, ReasoningPart))
            if told:
                prefix.append(replace(message, parts=told))
        return prefix, seen


@given(histories(), infold_situations())
def test_kept_thinking_is_valid_behind_native_summaries(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B32, B42: over any history, with as many native compactions as the plan makes, no thinking has another prefix."""
    rendering = Rendering(inputs.policy.estimate, inputs.policy.stub, binds_thinking=True, shows_native=True)
    inputs = replace(inputs, summariser=True, native="always")
    provider, log = Provider(), Log(SessionId("s"), rendering)
    for message in (BEGINNING, *history):
        if isinstance(message, AssistantMessage) and not message.summary and log.next_sequence:
            log = compacted(log, inputs, provider)
            provider.created[message.id] = provider.read(view(log, inputs.policy.summary))
        log = log.append(MessageEntry(message))
    provider.read(view(compacted(log, inputs, provider), inputs.policy.summary))


def compacted(log: Log, inputs: PlanInputs, provider: Provider) -> Log:
    """The log before its next request, compacted by the provider wherever the plan asks for it."""
    while not isinstance(step := next_step(log, inputs), Fits | Stuck):
        if isinstance(step, Summarise) and step.native:
            shown, first_kept = view(log, inputs.policy.summary), log.live[step.cut.index].message.id
            head = shown[: [message.id for message in shown].index(first_kept)]
            block = AssistantMessage(MessageId(f"native-{len(provider.stands_for)}"), (TextPart("{}", opaque=True),))
            provider.stands_for[block.id] = provider.read(head)
            checkpoint, _ = checkpoint_for(log, step, inputs, narrative="Story.", native=NativeSummary((block,), 20))
            log = log.append(checkpoint)
        else:
            log = apply_step(log, step, inputs).log
        if step.reason == "manual":
            inputs = replace(inputs, manual=False)
    return log
