"""The loop: prepare, ask, record, run tools, until there is nothing left to do (S5.1 to S5.5).

The session decides what is sent and compacts when it must; a compaction that was left over is carried out first, because
preparing does so. All that was said and done is in the session's log before the next thing happens, so that a step that is
broken off anywhere leaves a session whose next prompt is answered (B13).
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import takewhile
from time import sleep
from typing import Any, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.agent.events import (
    AgentEvent,
    Notice,
    ReasoningReceived,
    RequestRetried,
    RunEnded,
    RunEnding,
    RunStarted,
    StepFinished,
    TextReceived,
    ToolAnswered,
)
from infold.agent.instructions import ProjectInstructions
from infold.agent.session_writer import SessionWriter
from infold.agent.toolbox import Toolbox, not_started
from infold.api.session import Session
from infold.core.compact import CONTINUE_TEXT
from infold.core.events import Compacted
from infold.core.messages import (
    AssistantMessage,
    Finish,
    Message,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    calls_of,
    is_genuine_user,
    results_of,
    text_of,
)
from infold.core.summary_request import Agent, assemble_system
from infold.engine.keeper import Ready
from infold.errors import InfoldError, ModelBusy, ModelOverflow, SummaryFailed, WindowExceeded
from infold.formats.tools import tool_items
from infold.ports import Calling, Model, ModelRequest, Replied, Said, Thought

LONGEST_PERIOD = 4


REPEATS = 3
"""How often a circle goes round before it is called one."""


class StepRecord(Struct, frozen=True):
    """What one step did: the tools it called, their arguments in one spelling, and a mark of what they answered."""

    tool: str
    arguments: str
    answer: str


def step_records(messages: Iterable[Message]) -> tuple[StepRecord, ...]:
    """What was done since a person last spoke, oldest first; a step whose calls were not all answered is left out."""
    steps: list[tuple[ToolCallPart, ...]] = []
    answers: dict[str, ToolResultPart] = {}
    for message in messages:
        if is_genuine_user(message):
            steps.clear()
        if calls := calls_of(message):
            steps.append(calls)
        answers.update((result.call_id, result) for result in results_of(message))
    return tuple(_deed(calls, answers) for calls in steps if all(call.call_id in answers for call in calls))


def find_repeat_period(deeds: Sequence[StepRecord]) -> int:
    """After how many steps the newest deeds repeat, if they went round three times; 0 where they do not."""
    for period in range(1, LONGEST_PERIOD + 1):
        newest = deeds[-period * REPEATS :]
        if len(newest) == period * REPEATS and all(newest[at] == newest[at % period] for at in range(len(newest))):
            return period
    return 0


def _deed(calls: Sequence[ToolCallPart], answers: dict[str, ToolResultPart]) -> StepRecord:
    mark = sha256()
    for call in calls:
        result = answers[call.call_id]
        mark.update(f"{len(result.output)} {result.status} {result.output}".encode("utf-8", "replace"))
    return StepRecord(
        "\n".join(call.tool for call in calls), "\n".join(_canonical(call) for call in calls), mark.hexdigest()[:32]
    )


def _canonical(call: ToolCallPart) -> str:
    """Arguments in one spelling, whatever their order and white space."""
    try:
        decoded = msgspec.json.decode(call.arguments.encode("utf-8", "replace"))
        return msgspec.json.encode(decoded, order="deterministic").decode()
    except (msgspec.DecodeError, RecursionError):
        return call.arguments.strip()


MOST_RETRIES_IN_REPLY = 2
"""How often a model is asked again whose reply broke off: what it said until then has its price each time."""


MOST_RETRIES_BEFORE_REPLY = 5
"""How often a model is asked again that said nothing, beyond what its SDK did already: some half a minute."""


LONGEST_WAIT_SECONDS = 300.0
"""Who is asked to wait longer than this is better told so; work that stands still for hours is nobody's wish."""


class ModelCaller:
    """Asks a model and tells what arrives; `said` is the text of the reply so far, for whoever breaks it off.

    A busy model is asked again after a pause, the next time after twice that, and never sooner than its provider asks for.
    """

    def __init__(
        self,
        model: Model,
        tell: Callable[[AgentEvent], None],
        *,
        pause_seconds: float,
        wait: Callable[[float], None] = sleep,
    ) -> None:
        self.said = ""
        self._model = model
        self._tell = tell
        self._pause_seconds = pause_seconds
        self._wait = wait
        self._has_begun = False

    def ask(self, request: ModelRequest, smaller: Callable[[ModelOverflow], ModelRequest]) -> dict[str, Any]:
        """The whole reply; `smaller` makes another request of one that was refused as too large, or raises.

        Raises `ModelError` where the model does not answer.
        """
        retries = 0
        while True:
            self.said = ""
            try:
                return self._heard(request)
            except ModelOverflow as error:
                request = smaller(error)
                self._tell(RequestRetried(str(error)))
            except ModelBusy as error:
                seconds = max(self._pause_seconds * 2**retries, error.wait_seconds)
                if (
                    retries >= (MOST_RETRIES_IN_REPLY if self._has_begun else MOST_RETRIES_BEFORE_REPLY)
                    or seconds > LONGEST_WAIT_SECONDS
                ):
                    raise
                self._tell(RequestRetried(str(error), seconds))
                self._wait(seconds)
                retries += 1

    def _heard(self, request: ModelRequest) -> dict[str, Any]:
        self._has_begun = False
        for heard in self._model.stream(request):
            self._has_begun = True
            match heard:
                case Said():
                    self.said += heard.text
                    self._tell(TextReceived(heard.text))
                case Thought():
                    self._tell(ReasoningReceived(heard.text))
                case Replied():
                    return heard.body
                case Calling():
                    pass
                case _:
                    assert_never(heard)
        raise AssertionError("a model's stream ended without a reply")


MOST_STEP_RECORDS = 24
"""How many of the newest calls are looked at for a circle; it takes twelve to see the longest one go round three times."""


LOOP_WARNING = (
    "The last calls are the same ones over and over, with the same answers. Repeating them once more will not help: try "
    "something else, or say what you cannot do."
)
"""What a model is told that goes round in a circle, once; after that it is stopped."""


CUT_OFF_NOTE = (
    "[the reply had reached its greatest length, so this call may have been cut off; make it shorter: write the first part of a "
    "long file, then add the rest in further steps with edit]"
)
"""What a model is told whose last call failed in a reply that ended for length; of a call cut in two the tool sees only half."""


INSTRUCTIONS_SHARE = 0.25
"""What part of a request instructions may be: beside tools and prompt, in a small window, that leaves half for the work."""


UNTRUSTED_NOTICE = "not used, because this folder is not trusted: {files}; --trust uses them, now and from now on"


EMPTY_REPLY = "the model said nothing; ask again, or in other words"


class RunLimits(Struct, frozen=True):
    """How far an agent goes by itself: steps for one prompt, tokens of a reply (0: the model's own limit), and how much of one
    tool result the model is shown at first, as tokens and as a share of the window; the rest can be recalled.

    `pause_seconds` pass before a busy model is asked again, and twice that before the next time; after `silence_seconds` a person
    is told what the first request waits for.
    """

    steps: int = 250
    output_tokens: int = 0
    result_tokens: int = 8_000
    result_share: float = 0.125
    pause_seconds: float = 1.0
    silence_seconds: float = 1.5


DEFAULT_LIMITS = RunLimits()


class Loop:
    """One agent at work on one session."""

    def __init__(
        self,
        session: Session,
        model: Model,
        agent: Agent,
        toolbox: Toolbox,
        *,
        tell: Callable[[AgentEvent], None],
        limits: RunLimits = DEFAULT_LIMITS,
    ) -> None:
        self._session = session
        self._model = model
        self._agent = agent
        self._toolbox = toolbox
        self._tell = tell
        self._limits = limits
        self._writer = SessionWriter(session, model, agent, root=str(toolbox.workspace.root))
        self._caller = ModelCaller(model, tell, pause_seconds=limits.pause_seconds)
        self._specs = toolbox.specs if agent.allows_tools else ()
        self._tools = tool_items(model.format, self._specs)
        self._instructions = ProjectInstructions()
        self._snapshot = ""
        self._steps = 0
        self._deeds: tuple[StepRecord, ...] = ()
        self._is_warned = False
        self._is_cut_off = False

    def run(self, prompt: str, *, system: str = "") -> RunEnded:
        """Work on what a person asks until it is done, or until something ends it; an interrupt is an ending too.

        `system` is text for the system prompt of this request alone (S3.3). Raises `ModelError` where the model does not
        answer, `WindowExceeded` where no request can be made to fit, `StoreError` where nothing can be kept; that it ended is
        told then too.
        """
        self._writer.own = system
        return self._work(prompt)

    def go_on(self) -> RunEnded:
        """Work on from where the session stands, as after an abort or a crash."""
        return self._work()

    def _work(self, prompt: str | None = None) -> RunEnded:
        """Work from the beginning, which is told, to the end, which is told however it comes."""
        root, model = str(self._toolbox.workspace.root), self._model.ref.full_name
        self._tell(RunStarted(self._session.log.session_id, model, root))
        self._steps = 0
        try:
            ending = self._worked(prompt)
        except KeyboardInterrupt:
            ending = "aborted"
        except SystemExit:
            self._end("aborted")
            raise
        except SummaryFailed as error:
            return self._end("stop", str(error))
        except InfoldError as error:
            self._explain(error)
            self._end("failed", str(error))
            raise
        return self._end(ending)

    def _worked(self, prompt: str | None) -> RunEnding:
        """Take one step after the other; gives why there is no further one."""
        if prompt is not None:
            self._writer.put(prompt)
        self._deeds = step_records(placed.message for placed in self._session.log.live)
        self._writer.recall_own()
        self._is_warned = self._is_cut_off = False
        # Later steps begin with the tree that the one before ended with.
        self._snapshot = self._toolbox.first_snapshot(self._tell, self._limits.silence_seconds)
        ending: RunEnding | None = None
        while ending is None:
            ending = "steps" if self._steps == self._limits.steps else self._step(self._steps + 1)
            self._steps += ending != "steps"
        return ending

    def _explain(self, error: InfoldError) -> None:
        """Name the instructions in an error that they may be the reason of: nobody thinks of what a program adds unseen."""
        files = self._instructions.files
        if isinstance(error, WindowExceeded) and files:
            error.args = (
                f"{error}; the system prompt holds the instructions in {', '.join(files)}: shorten those first",
            )

    def _end(self, ending: RunEnding, problem: str = "") -> RunEnded:
        text = self._answer()
        problem = EMPTY_REPLY if ending == "done" and not text.strip() else problem
        ended = RunEnded(ending, self._session.log.session_id, self._steps, text, problem)
        self._tell(ended)
        return ended

    # One step.

    def _step(self, number: int) -> RunEnding | None:
        """Prepare, ask, record, run tools; gives why there is no further step, if there is none."""
        ready = self._prepared()
        if self._is_cut_off and not _compacted(ready):
            return "length"
        if self._is_answered():
            self._writer.put(CONTINUE_TEXT, synthetic=True)
            ready = self._prepared()
        try:
            body = self._caller.ask(self._request(ready), self._smaller)
        except BaseException as error:
            why: Finish = "error" if isinstance(error, InfoldError) else "abort"
            self._writer.broken_off(self._caller.said, why, self._snapshot)
            raise
        reply = self._writer.reply(body, self._snapshot)
        self._tell(
            StepFinished(number, reply.finish, reply.usage, reply.cost, ready.gauge.count_tokens, ready.limit_tokens)
        )
        return self._carry_out(reply) if calls_of(reply) else self._said_all(reply)

    def _prepared(self) -> Ready:
        """The next request; instructions are read anew for each, so that no compaction can make them stale."""
        self._read_instructions()
        return self._session.prepare_new(
            (), system=self._system(), tools=self._tools, output_tokens=self._limits.output_tokens
        )

    def _read_instructions(self) -> None:
        """Read what fits beside the work, and tell a person, once, what of it does not."""
        found = self._toolbox.instructions(int(self._session.limit_tokens * INSTRUCTIONS_SHARE))
        if found.shortened and found.shortened != self._instructions.shortened:
            only = ", ".join(found.shortened)
            self._tell(Notice(f"too long to be given to the model whole, so it has the beginning only: {only}"))
        if found.ignored and found.ignored != self._instructions.ignored:
            self._tell(Notice(UNTRUSTED_NOTICE.format(files=", ".join(found.ignored))))
        self._instructions = found

    def _request(self, ready: Ready) -> ModelRequest:
        return ModelRequest(ready.messages, self._system(), self._specs, self._limits.output_tokens)

    def _smaller(self, overflow: ModelOverflow) -> ModelRequest:
        """The request once more, with less in it; raises what was said where infold does not know it for an overflow."""
        ready = self._session.recover(overflow.refusal)
        if ready is None:
            raise overflow
        return self._request(ready)

    def _system(self) -> str:
        """The agent's prompt, then what holds for this project, then the last user message's own text (S3.3)."""
        return assemble_system(self._agent.system_text, self._instructions.text, self._writer.own)

    def _carry_out(self, reply: AssistantMessage) -> RunEnding | None:
        """Run the tools a reply calls, one after the other; what breaks one off leaves none without a result."""
        calls, results = calls_of(reply), list[ToolResultPart]()
        for call in calls:
            left = calls[len(results) + 1 :]
            try:
                result = self._toolbox.run(call, self._tell, self._session.log.rendering)
            except BaseException:
                self._keep((self._toolbox.broken_off(call), *map(not_started, left)), reply, is_last=True)
                raise
            if result.status == "error" and reply.finish == "length" and not left:
                result = replace(result, output=f"{result.output}\n{CUT_OFF_NOTE}")
            self._keep((result,), reply, is_last=not left)
            results.append(result)
        self._deeds = (*self._deeds, *step_records((reply, ToolMessage(reply.id, tuple(results)))))[-MOST_STEP_RECORDS:]
        return self._circled()

    def _keep(self, results: tuple[ToolResultPart, ...], reply: AssistantMessage, *, is_last: bool) -> None:
        """Store results at once, and tell of them only then: what was told is never lost. The last end the step."""
        longest = self._longest()
        if is_last:
            self._snapshot = self._toolbox.snapshot()
            self._writer.last_results(results, reply, self._snapshot, longest_tokens=longest)
        else:
            self._writer.results(results, longest_tokens=longest)
        for result in results:
            self._tell(_answered(result))

    def _circled(self) -> RunEnding | None:
        """Warn a model that goes round in a circle, and stop one that goes on after that (D14)."""
        if not find_repeat_period(self._deeds):
            return None
        if self._is_warned:
            return "circling"
        self._is_warned = True
        self._writer.put(LOOP_WARNING, synthetic=True)
        return None

    def _said_all(self, reply: AssistantMessage) -> RunEnding | None:
        """Why a reply that calls nothing is the last one; none where it was cut off, or its step ends in a compaction."""
        if reply.finish == "content-filter":
            return "filtered"
        self._is_cut_off = reply.finish == "length"
        return None if self._is_cut_off or self._overflowed() else "done"

    def _overflowed(self) -> bool:
        """Whether the step filled the window by the provider's own count, and a compaction asks to go on (S5.2, S3.8)."""
        compacts = self._session.policy.compares_usage and _compacted(self._prepared())
        return compacts and not self._is_answered()

    def _is_answered(self) -> bool:
        """Whether the model itself had the last word; no provider need accept a request that ends with that (B12)."""
        live = self._session.log.live
        if not live:
            return True
        newest = live[-1].message
        return isinstance(newest, AssistantMessage) and not live[-1].calls and newest.finish != "error"

    def _longest(self) -> int:
        window = self._session.window_tokens
        share = int(window * self._limits.result_share) if window else self._limits.result_tokens
        return min(self._limits.result_tokens, share)

    def _answer(self) -> str:
        """What the last reply to the newest prompt said; an earlier prompt's answer is none."""
        since = takewhile(lambda placed: not placed.is_persons, reversed(self._session.log.live))
        replies = (placed.message for placed in since if isinstance(placed.message, AssistantMessage))
        return next(map(text_of, replies), "")


def _compacted(ready: Ready) -> bool:
    return any(isinstance(event, Compacted) for event in ready.events)


def _answered(result: ToolResultPart) -> ToolAnswered:
    took = (result.finished_ms or 0) - (result.started_ms or 0)
    return ToolAnswered(result.call_id, result.tool, result.output, result.status, result.exit_status, max(0, took))
