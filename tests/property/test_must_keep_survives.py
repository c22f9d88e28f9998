"""Law: the first request, the latest one and the user's rules stand verbatim in every view, fold after fold, or it is told."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.play import play
from tests.support.policies import FOLDS
from tests.support.strategies import histories, infold_situations

from infold.core.budget import Window, budget_for
from infold.core.compact import compact
from infold.core.entries import MessageEntry
from infold.core.events import Clipped, InstructionStubbed
from infold.core.gauge import PlanInputs
from infold.core.ledger import sentences
from infold.core.messages import Message, TextPart, UserMessage, text_of
from infold.core.plan import Fold, Prune
from infold.core.policy import INFOLD, Policy
from infold.core.view import view
from infold.testing.builders import calls, log_of, numbered, replies, result, user

RULES = (
    "Never touch the vendor folder.",
    "Always run the tests before you commit.",
    "不要修改数据库结构。",
    "必ず日本語でコメントを書いてください。",
    "반드시 타입 힌트를 사용하세요.",
    "Do not add dependencies.",
)


@settings(max_examples=50)
@given(
    st.sampled_from(RULES),
    st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique=True),
    st.sampled_from((4_096, 8_192, 32_000)),
    st.integers(0, 3),
    st.sampled_from((INFOLD, FOLDS)),
)
def test_instructions_survive_ten_folds(first: str, later: list[str], window: int, every: int, policy: Policy) -> None:
    """B2, B3: after ten folds the first request, the latest request and each rule are in the request word for word; and after
    ten prunings or folds where stubs may do."""
    inputs = PlanInputs(policy, budget_for(Window(window), policy), overhead_tokens=200)
    opening = f"Port the parser to the new interface. {first}"
    history = long_session(opening, later, window, every)
    counted = Fold if policy is FOLDS else Fold | Prune
    cuts = 0
    for played in play(log_of(()), history, inputs):
        cuts += sum(isinstance(step, counted) for step in played.compaction.steps)
        sent = "\n".join(text_of(message) for message in played.request)
        newest = played.compaction.log.live[-1].message
        said = [text_of(message) for message in history[: history.index(newest) + 1]]
        assert opening in sent
        for rule in later:
            assert rule in sent or not any(rule in text for text in said)
    assert cuts >= 10


@settings(max_examples=60)
@given(histories(max_blocks=30), infold_situations())
def test_what_a_person_said_stands_or_was_told(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B2: in each request each sentence that a person has said so far is word for word, or an event named the message when it
    was shortened."""
    told: set[str] = set()
    log = log_of((), policy=inputs.policy)
    said: dict[str, str] = {}
    for message in history:
        handles = [f"{log.next_sequence}.{position}" for position in range(len(message.parts))]
        if isinstance(message, UserMessage):
            said |= {
                handle: part.text.strip()
                for handle, part in zip(handles, message.parts, strict=True)
                if isinstance(part, TextPart) and not part.synthetic
            }
        compaction = compact(log.append(MessageEntry(message)), inputs)
        log = compaction.log
        for event in compaction.events:
            told |= set(event.handles) if isinstance(event, InstructionStubbed) else set()
            told |= set(event.targets) if isinstance(event, Clipped) else set()
        sent = "\n".join(text_of(message) for message in view(log, inputs.policy.summary))
        words = {said[handle] for handle in told if handle in said}

        missing = [handle for handle, text in said.items() if not _stands(text, sent) and text not in words]
        assert missing == []


def _stands(text: str, sent: str) -> bool:
    """Return whether a message is in a request; sentences of it that stand elsewhere there are not repeated."""
    return text in sent or all(sentence in sent for sentence in sentences(text))


def long_session(opening: str, later: list[str], window: int, every: int) -> tuple[Message, ...]:
    """A session of some eighteen windows: an opening request, rules given on the way, and tool output in between."""
    drafts: list[Message] = [user(opening)]
    step = window // 8
    for number in range(144):
        drafts += [calls("bash", arguments=f'{{"command":"make part{number}"}}'), result(step)]
        if number % 20 == 5 and number // 20 < len(later):
            drafts += [replies("Part done."), user(f"Good. {later[number // 20]} Now part {number}.")]
        if every and number % (every * 7) == 3:
            drafts += [replies("Shall I go on?"), user("go on")]
    return numbered(drafts)
