"""The agent loop: prepare a request, call the model, record the reply, run its tools, until there is nothing left to do.

The session decides what is sent and compacts if it must. A compaction that an earlier run left unfinished is carried out first,
because preparing a request does so. Everything is written to the log before the next thing happens, so a session whose step was
interrupted anywhere can answer its next prompt.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import takewhile
from time import sleep
from typing import Any, TypeAlias, assert_never

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
from infold.agent.toolbox import Toolbox, not_started
from infold.catalogue import cost_of
from infold.core.compact import CONTINUE_TEXT
from infold.core.events import Compacted
from infold.core.messages import (
    AssistantMessage,
    Finish,
    Message,
    MessageId,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    WorkPath,
    calls_of,
    is_genuine_user,
    results_of,
    text_of,
)
from infold.core.summary_request import Agent, SummaryRequest, assemble_system
from infold.errors import InfoldError, ModelBusy, ModelOverflow, SummaryFailed, WindowExceeded
from infold.formats.registry import format_named
from infold.formats.requests import native_betas
from infold.formats.tools import tool_items
from infold.ports import Calling, Model, ModelRequest, Replied, Said, Thought
from infold.session.context import ReplyMetadata
from infold.session.report import Ready
from infold.session.session import Session
from infold.session.titles import message_title

# Loop detection.

LONGEST_PERIOD = 4

REPEATS = 3
"""How often the same steps are taken before they count as a loop."""

MOST_STEP_RECORDS = 24
"""How many of the newest steps are compared; the longest loop takes twelve steps to repeat three times."""


def step_records(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return a digest of each step since the last user message, oldest first, without steps that lack a result."""
    steps: list[tuple[ToolCallPart, ...]] = []
    results: dict[str, ToolResultPart] = {}
    for message in messages:
        if is_genuine_user(message):
            steps.clear()
        if calls := calls_of(message):
            steps.append(calls)
        results.update((result.call_id, result) for result in results_of(message))
    answered = (calls for calls in steps if all(call.call_id in results for call in calls))
    return tuple(_digest([(call, results[call.call_id]) for call in calls]) for calls in answered)


def find_repeat_period(records: Sequence[str]) -> int:
    """Return after how many steps the newest ones repeat, or 0 if they do not repeat often enough."""
    for period in range(1, LONGEST_PERIOD + 1):
        newest = records[-period * REPEATS :]
        if len(newest) == period * REPEATS and all(newest[at] == newest[at % period] for at in range(len(newest))):
            return period
    return 0


def _digest(step: Iterable[tuple[ToolCallPart, ToolResultPart]]) -> str:
    """Return what identifies a step: its tools, their arguments and results."""
    facts = [(call.tool, _canonical_arguments(call), result.status, result.output) for call, result in step]
    return sha256(repr(facts).encode("utf-8", "replace")).hexdigest()


def _canonical_arguments(call: ToolCallPart) -> str:
    """Return a call's arguments regardless of their order and white space."""
    try:
        decoded = msgspec.json.decode(call.arguments.encode("utf-8", "replace"))
        return msgspec.json.encode(decoded, order="deterministic").decode()
    except (msgspec.DecodeError, RecursionError):
        return call.arguments.strip()


# Calling the model.

MOST_RETRIES_IN_REPLY = 2
"""Retries after a reply that broke off: each try is paid for."""

MOST_RETRIES_BEFORE_REPLY = 5
"""Retries while the model sends nothing, in addition to those of its SDK: about half a minute."""

LONGEST_WAIT_SECONDS = 300.0
"""If a provider asks for a longer wait, the run fails at once instead of standing still for hours."""


class ModelCaller:
    """Call a model and emit what it streams; `text` is the text of the reply so far, also of one that broke off.

    A busy model is called again after a pause, which doubles each time and is never shorter than its provider asks for.
    """

    def __init__(
        self,
        model: Model,
        emit: Callable[[AgentEvent], None],
        *,
        pause_seconds: float,
        wait: Callable[[float], None] = sleep,
    ) -> None:
        self.text = ""
        self._model = model
        self._emit = emit
        self._pause_seconds = pause_seconds
        self._wait = wait
        self._has_begun = False

    def call(self, request: ModelRequest, shrink: Callable[[ModelOverflow], ModelRequest]) -> dict[str, Any]:
        """Return the body of the reply; raise `ModelError` if the model does not answer.

        `shrink` returns a smaller request for one that was refused as too large, or raises.
        """
        retries = 0
        while True:
            try:
                return self._stream(request)
            except ModelOverflow as error:
                request = shrink(error)
                self._emit(RequestRetried(str(error)))
            except ModelBusy as error:
                seconds = max(self._pause_seconds * 2**retries, error.wait_seconds)
                most = MOST_RETRIES_IN_REPLY if self._has_begun else MOST_RETRIES_BEFORE_REPLY
                if retries >= most or seconds > LONGEST_WAIT_SECONDS:
                    raise
                self._emit(RequestRetried(str(error), seconds))
                self._wait(seconds)
                retries += 1

    def _stream(self, request: ModelRequest) -> dict[str, Any]:
        self.text, self._has_begun = "", False
        for received in self._model.stream(request):
            self._has_begun = True
            match received:
                case Said():
                    self.text += received.text
                    self._emit(TextReceived(received.text))
                case Thought():
                    self._emit(ReasoningReceived(received.text))
                case Replied():
                    return received.body
                case Calling():
                    pass
                case _:
                    assert_never(received)
        raise AssertionError("a model's stream ended without a reply")


# Writing to the session.

NO_ID = MessageId("")
"""The id of a message that the session has yet to number."""


StepMarks: TypeAlias = tuple[StepStartPart | StepFinishPart, ...]


class SessionWriter:
    """Write an agent's work into its session: prompts, replies and tool results, each with its metadata.

    Everything is stored before an event reports it. `system` is the system text of the last user message, which holds for all
    steps of its prompt.
    """

    def __init__(self, session: Session, model: Model, agent: Agent, *, root: str) -> None:
        self.system = ""
        self._session = session
        self._model = model
        self._wire = format_named(model.format)
        self._agent = agent
        self._path = WorkPath(root, root)

    def add_prompt(self, text: str, *, synthetic: bool = False) -> None:
        """Write a user message, with a title if the user wrote it; `synthetic` marks text of the program."""
        part = TextPart(text, synthetic=synthetic)
        message = UserMessage(NO_ID, (part,), agent=self._agent.name, model=self._model.ref, system=self.system)
        self._session.add((message,))
        title = "" if synthetic else message_title(message)
        if title:
            self._session.title(title, message_id=self._session.log.live[-1].message.id)

    def restore_system(self) -> None:
        """Take `system` from the last user message in the session, as after a restart."""
        users = (placed.message for placed in reversed(self._session.log.live) if not placed.is_business)
        newest = next((message for message in users if isinstance(message, UserMessage)), None)
        self.system = "" if newest is None else newest.system

    def add_reply(self, body: dict[str, Any], snapshot: str) -> AssistantMessage:
        """Write a reply whose step began with this snapshot, and return it as it stands in the log."""
        replies = self._wire.decode(self._wire.reply_items(body)).messages
        finish, usage = self._wire.finish(body), self._wire.usage(body)
        marks: StepMarks = (StepStartPart(snapshot),)
        if not any(map(calls_of, replies)):
            cost = cost_of(self._model.ref.full_name, usage)
            marks += (StepFinishPart(finish or "other", snapshot, usage or Usage(), cost),)
        if replies:
            self._session.record(body, self._metadata(marks))
        else:  # some models have nothing more to say after their last call
            self._add_own(AssistantMessage(NO_ID, (), usage=usage, finish=finish), marks)
        written = self._session.log.live[-1].message
        assert isinstance(written, AssistantMessage)
        return written

    def add_partial_reply(self, text: str, reason: Finish, snapshot: str) -> None:
        """Write the text of a reply that broke off, unless it is blank."""
        if text.strip():
            marks = (StepStartPart(snapshot), StepFinishPart(reason, snapshot))
            self._add_own(AssistantMessage(NO_ID, (TextPart(text),), finish=reason), marks)

    def add_results(
        self, results: tuple[ToolResultPart, ...], reply: AssistantMessage, snapshot: str | None, *, longest_tokens: int
    ) -> None:
        """Write results of a reply's calls, shown shortened if longer; a `snapshot`, even an empty one, ends the step."""
        parts: tuple[ToolResultPart | StepFinishPart, ...] = results
        if snapshot is not None:
            parts += (StepFinishPart(reply.finish or "other", snapshot, reply.usage or Usage(), reply.cost),)
        self._session.add((ToolMessage(NO_ID, parts),), longest_tokens=longest_tokens)

    def _metadata(self, marks: StepMarks) -> ReplyMetadata:
        return ReplyMetadata(self._agent.name, self._model.ref, self._path, marks)

    def _add_own(self, reply: AssistantMessage, marks: StepMarks) -> None:
        """Write a reply that the provider did not send as such."""
        self._session.add((self._metadata(marks).apply(reply, self._session.log),))


# The loop.

LOOP_WARNING = (
    "The last calls are the same ones over and over, with the same answers. Repeating them once more will not help: try "
    "something else, or say what you cannot do."
)
"""Sent once to a model that repeats its steps; if it continues, the run ends."""

CUT_OFF_NOTE = (
    "[the reply had reached its greatest length, so this call may have been cut off; make it shorter: write the first part of a "
    "long file, then add the rest in further steps with edit]"
)
"""Added to the failure of the last call in a reply that ended for length: the tool may have received half of its arguments."""

INSTRUCTIONS_SHARE = 0.25
"""Maximum share of a request for instructions: with tools and prompt, in a small window, that leaves half for the work."""

UNTRUSTED_NOTICE = "not used, because this folder is not trusted: {files}; --trust uses them, now and from now on"
EMPTY_REPLY = "the model said nothing; ask again, or in other words"


class RunLimits(Struct, frozen=True):
    """How far an agent goes by itself.

    `steps` are per prompt; `output_tokens` per reply (0: the model's own limit). `result_tokens` and `result_share` (of the
    window) limit how much of one tool result the model is shown at first; the rest can be recalled. `pause_seconds` is the
    first pause before a busy model is called again; after `silence_seconds` a notice explains what the first request waits for.
    """

    steps: int = 250
    output_tokens: int = 0
    result_tokens: int = 8_000
    result_share: float = 0.125
    pause_seconds: float = 1.0
    silence_seconds: float = 1.5


class Loop:
    """One agent working on one session."""

    def __init__(
        self,
        session: Session,
        model: Model,
        agent: Agent,
        toolbox: Toolbox,
        *,
        emit: Callable[[AgentEvent], None],
        limits: RunLimits,
    ) -> None:
        self._session = session
        self._model = model
        self._agent = agent
        self._toolbox = toolbox
        self._emit = emit
        self._limits = limits
        self._root = str(toolbox.workspace.root)
        self._writer = SessionWriter(session, model, agent, root=self._root)
        self._caller = ModelCaller(model, emit, pause_seconds=limits.pause_seconds)
        self._specs = toolbox.specs if agent.allows_tools else ()
        self._tools = tool_items(model.format, self._specs)
        self._instructions = ProjectInstructions()
        self._system = ""
        self._snapshot = ""
        self._steps = 0
        self._records: tuple[str, ...] = ()
        self._is_warned = False
        self._is_cut_off = False

    def run(self, prompt: str, *, system: str = "") -> RunEnded:
        """Work on a prompt until it is done or something ends the run; an interrupt is an ending too.

        `system` is added to the system prompt for this prompt alone. Raise `ModelError` if the model does not answer,
        `WindowExceeded` if no request can be made to fit, `StoreError` if nothing can be stored; the end is emitted then too.
        """
        self._writer.system = system
        return self._run(prompt)

    def go_on(self) -> RunEnded:
        """Continue from where the session stands, as after an abort or a crash."""
        return self._run()

    def with_prefix(self, request: SummaryRequest) -> SummaryRequest:
        """Return a request for a summary with what the last step's request began with: its messages, tools and header."""
        betas = native_betas(format_named(self._model.format)) if self._session.log.native else ()
        items = tuple(self._session.encode(request.messages[:-1]))
        return replace(request, items=items, tools=self._specs, betas=betas)

    def _run(self, prompt: str | None = None) -> RunEnded:
        self._emit(RunStarted(self._session.log.session_id, self._model.ref.full_name, self._root))
        self._steps = 0
        try:
            ending = self._take_steps(prompt)
        except KeyboardInterrupt:
            ending = "aborted"
        except SystemExit:
            self._end("aborted")
            raise
        except SummaryFailed as error:
            return self._end("stop", str(error))
        except InfoldError as error:
            files = self._instructions.files
            if isinstance(error, WindowExceeded) and files:  # the user may not know that these are sent
                names = ", ".join(files)
                error.args = (f"{error}; the system prompt holds the instructions in {names}: shorten those first",)
            self._end("failed", str(error))
            raise
        return self._end(ending)

    def _take_steps(self, prompt: str | None) -> RunEnding:
        if prompt is not None:
            self._writer.add_prompt(prompt)
        self._records = step_records(placed.message for placed in self._session.log.live)
        self._writer.restore_system()
        self._is_warned = self._is_cut_off = False
        # Later steps begin with the tree that the one before ended with.
        self._snapshot = self._toolbox.first_snapshot(self._emit, self._limits.silence_seconds)
        while self._steps < self._limits.steps:
            ending = self._step(self._steps + 1)
            self._steps += 1
            if ending is not None:
                return ending
        return "steps"

    def _end(self, ending: RunEnding, problem: str = "") -> RunEnded:
        """Emit the end, with the text of the last reply to the newest prompt."""
        since = takewhile(lambda placed: not placed.is_persons, reversed(self._session.log.live))
        replies = (placed.message for placed in since if isinstance(placed.message, AssistantMessage))
        text = next(map(text_of, replies), "")
        problem = EMPTY_REPLY if ending == "done" and not text.strip() else problem
        ended = RunEnded(ending, self._session.log.session_id, self._steps, text, problem)
        self._emit(ended)
        return ended

    # One step.

    def _step(self, number: int) -> RunEnding | None:
        """Prepare, call the model, record, run tools; return why the run ends here, or `None` if it continues."""
        ready = self._prepare()
        if self._is_cut_off and not _is_compacted(ready):
            return "length"
        if self._ends_with_reply():
            self._writer.add_prompt(CONTINUE_TEXT, synthetic=True)
            ready = self._prepare()
        try:
            body = self._caller.call(self._request(ready), self._shrink)
        except BaseException as error:
            reason: Finish = "error" if isinstance(error, InfoldError) else "abort"
            self._writer.add_partial_reply(self._caller.text, reason, self._snapshot)
            raise
        reply = self._writer.add_reply(body, self._snapshot)
        view_tokens, limit_tokens = ready.gauge.count_tokens, ready.report.limit_tokens
        self._emit(StepFinished(number, reply.finish, reply.usage, reply.cost, view_tokens, limit_tokens))
        if calls_of(reply):
            return self._run_tools(reply)
        if reply.finish == "content-filter":
            return "filtered"
        self._is_cut_off = reply.finish == "length"
        return None if self._is_cut_off or self._continues_after_compaction() else "done"

    def _prepare(self) -> Ready:
        """Prepare the next request; instructions are read again for each, so that no compaction can make them stale."""
        found = self._toolbox.instructions(int(self._session.limit_tokens * INSTRUCTIONS_SHARE))
        if found.shortened and found.shortened != self._instructions.shortened:
            only = ", ".join(found.shortened)
            self._emit(Notice(f"too long to be given to the model whole, so it has the beginning only: {only}"))
        if found.ignored and found.ignored != self._instructions.ignored:
            self._emit(Notice(UNTRUSTED_NOTICE.format(files=", ".join(found.ignored))))
        self._instructions = found
        self._system = assemble_system(self._agent.system_text, found.text, self._writer.system)
        return self._session.prepare_new(
            (), system=self._system, tools=self._tools, output_tokens=self._limits.output_tokens
        )

    def _request(self, ready: Ready) -> ModelRequest:
        return ModelRequest(ready.messages, self._system, self._specs, ready.output_tokens, ready.betas)

    def _shrink(self, overflow: ModelOverflow) -> ModelRequest:
        """Return the request again with less in it; raise the overflow if the session does not recognise it."""
        ready = self._session.recover(overflow.refusal)
        if ready is None:
            raise overflow
        return self._request(ready)

    def _run_tools(self, reply: AssistantMessage) -> RunEnding | None:
        """Run the calls of a reply in order; if one is interrupted, the rest get a result too.

        Warn a model that repeats its steps, and end the run if it continues after that.
        """
        calls, results = calls_of(reply), list[ToolResultPart]()
        for call in calls:
            left = calls[len(results) + 1 :]
            try:
                result = self._toolbox.run(call, self._emit, self._session.log.rendering)
            except BaseException:
                self._store_results((self._toolbox.interrupted(call), *map(not_started, left)), reply, is_last=True)
                raise
            if result.status == "error" and reply.finish == "length" and not left:
                result = replace(result, output=f"{result.output}\n{CUT_OFF_NOTE}")
            self._store_results((result,), reply, is_last=not left)
            results.append(result)
        records = (*self._records, *step_records((reply, ToolMessage(reply.id, tuple(results)))))
        self._records = records[-MOST_STEP_RECORDS:]
        if not find_repeat_period(self._records):
            return None
        if self._is_warned:
            return "circling"
        self._is_warned = True
        self._writer.add_prompt(LOOP_WARNING, synthetic=True)
        return None

    def _store_results(self, results: tuple[ToolResultPart, ...], reply: AssistantMessage, *, is_last: bool) -> None:
        """Store results, then emit them, so that nothing emitted is lost; the last ones end the step."""
        window, longest = self._session.window_tokens, self._limits.result_tokens
        if window:
            longest = min(longest, int(window * self._limits.result_share))
        if is_last:
            self._snapshot = self._toolbox.snapshot()
        self._writer.add_results(results, reply, self._snapshot if is_last else None, longest_tokens=longest)
        for result in results:
            took_ms = max(0, (result.finished_ms or 0) - (result.started_ms or 0))
            self._emit(
                ToolAnswered(result.call_id, result.tool, result.output, result.status, result.exit_status, took_ms)
            )

    def _continues_after_compaction(self) -> bool:
        """Return whether the step filled the window by the provider's count and a compaction asks the model to continue."""
        compacts = self._session.policy.compares_usage and _is_compacted(self._prepare())
        return compacts and not self._ends_with_reply()

    def _ends_with_reply(self) -> bool:
        """Return whether the log ends with a reply, which no provider has to accept as the end of a request."""
        live = self._session.log.live
        if not live:
            return True
        newest = live[-1].message
        return isinstance(newest, AssistantMessage) and not live[-1].calls and newest.finish != "error"


def _is_compacted(ready: Ready) -> bool:
    return any(isinstance(event, Compacted) for event in ready.events)
