"""Law: where a model binds thinking, a view shows a block only behind what it was created behind, none missing in between."""

from hypothesis import given
from msgspec.structs import replace
from tests.support.play import play
from tests.support.strategies import histories, infold_situations

from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.logged_message import Rendering, is_sealed_reasoning
from infold.core.messages import AssistantMessage, Message, MessageId, ReasoningPart, SessionId, TextPart, UserMessage

BEGINNING = UserMessage(MessageId("first"), (TextPart("Build it."),))


@given(histories(), infold_situations())
def test_thinking_stands_behind_what_it_was_created_behind(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12, B32: over any history and any compactions, each sealed block of a view has the prefix of the request it answered."""
    rendering = Rendering(inputs.policy.estimate, inputs.policy.stub, binds_thinking=True)
    replies = iter([message.id for message in history if isinstance(message, AssistantMessage) and not message.summary])
    created: dict[MessageId, tuple[list[Message], list[MessageId]]] = {}

    for played in play(Log(SessionId("s"), rendering), (BEGINNING, *history), inputs):
        prefix: list[Message] = []
        seen: list[MessageId] = []
        for message in played.request:
            if any(map(is_sealed_reasoning, message.parts)):
                then, before = created[message.id]
                assert prefix == then
                assert before[len(before) - len(seen) :] == seen
                seen.append(message.id)
            said = tuple(part for part in message.parts if not isinstance(part, ReasoningPart))
            if said:
                prefix.append(replace(message, parts=said))
        answered = next(replies, None)
        if answered is not None:
            created[answered] = (prefix, seen)
