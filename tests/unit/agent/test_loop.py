"""The loop: one step after the other, and every way it ends."""

from pathlib import Path

import pytest
from tests.support.provider_rules import problems

from infold.agent.agents import TALK
from infold.agent.events import (
    AgentEvent,
    Notice,
    RequestRetried,
    RunEnded,
    RunStarted,
    StepFinished,
    TextReceived,
    ToolAnswered,
    ToolCalled,
)
from infold.agent.loop import CUT_OFF_NOTE, EMPTY_REPLY, LOOP_WARNING, RunLimits
from infold.agent.permissions import BUILD_RULES, Consent
from infold.agent.snapshots import Snapshots
from infold.agent.toolbox import INTERRUPTED
from infold.core.entries import Rejection
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    StepFinishPart,
    StepStartPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    UserMessage,
    results_of,
    text_of,
)
from infold.errors import KeyRefused, ModelBusy, WindowExceeded
from infold.formats.registry import OPENAI_CHAT
from infold.stores.memory import MemoryStore
from infold.testing import wire_replies
from infold.testing.script import Fail, Say, ScriptedAnswer, Trouble, in_turn
from infold.testing.scripted_model import ScriptedModel

from .builders import KEY, call, loop_in, messages_in, model_saying, session_in, toolbox_in

WRITES = Say("I write it.", (call("write", path="a.txt", content="a\n"), call("read", path="a.txt")))


def test_a_task_is_carried_out(tmp_path: Path) -> None:
    """S5.1, S5.5: a reply's calls are run, their results are sent with the next request, and the last reply is the answer."""
    model, store = model_saying(WRITES, "Done."), MemoryStore()
    ended = loop_in(tmp_path, model, store=store).run("Write a.txt.")

    assert ended == RunEnded("done", "s", 2, "Done.")
    assert (tmp_path / "a.txt").read_text() == "a\n"
    assert [result.output for message in model.requests[1].messages for result in results_of(message)] == [
        "made a.txt: 1 line",
        "1\ta",
    ]


def test_the_log_has_it_all(tmp_path: Path) -> None:
    """S3.1, S3.6, S6.1: agent, model, folder and prompt, and where each step began and ended, are in the log."""
    store = MemoryStore()
    loop_in(tmp_path, model_saying(WRITES, "Done."), store=store).run("Write a.txt.")
    asked, calling, first, second, answer = messages_in(store)

    assert isinstance(asked, UserMessage)
    assert isinstance(calling, AssistantMessage)
    assert isinstance(answer, AssistantMessage)
    assert (asked.agent, asked.model) == ("build", calling.model)
    assert calling.path is not None
    assert calling.path.root == str(tmp_path)
    assert calling.parent_id == asked.id
    assert [marks_of(one) for one in (calling, first, second, answer)] == [
        ["start"],
        [],
        ["tool-calls"],
        ["start", "stop"],
    ]


def test_events_are_emitted_in_order(tmp_path: Path) -> None:
    """Text, calls, results, steps and the end are emitted in order."""
    events: list[AgentEvent] = []
    loop_in(tmp_path, model_saying(WRITES, "Done."), events.append).run("Write a.txt.")

    calling, answering = (
        [TextReceived, StepFinished, ToolCalled, ToolAnswered, ToolCalled, ToolAnswered],
        [TextReceived, StepFinished, RunEnded],
    )
    assert [type(one) for one in events] == [RunStarted, *calling, *answering]
    assert events[0] == RunStarted("s", "scripted/scripted", str(tmp_path))
    assert [one.output for one in events if isinstance(one, ToolAnswered)] == ["made a.txt: 1 line", "1\ta"]
    assert [one.number for one in events if isinstance(one, StepFinished)] == [1, 2]


def test_a_call_that_was_cut_off_is_explained(tmp_path: Path) -> None:
    """Half a call is answered with why it is only half, whatever its tool makes of that; calls that are whole are just run."""
    half = Say(
        "", (call("write", path="a.txt", content="a\n"), call("write", arguments='{"path": "b')), finish="length"
    )
    model = model_saying(half, "Done.")
    loop_in(tmp_path, model).run("Write a.txt.")
    whole, cut = [result.output for message in model.requests[1].messages for result in results_of(message)]

    assert whole == "made a.txt: 1 line"
    assert "missing required field" in cut
    assert cut.endswith(CUT_OFF_NOTE)


def test_what_is_emitted_is_stored(tmp_path: Path) -> None:
    """B13: a step or a result is stored before its event is emitted, each result by itself."""
    store = MemoryStore()
    counts: list[tuple[int, int]] = []

    def look(events: AgentEvent) -> None:
        messages = messages_in(store)
        replies = sum(isinstance(message, AssistantMessage) for message in messages)
        if isinstance(events, StepFinished | ToolAnswered):
            counts.append((replies, sum(len(results_of(message)) for message in messages)))

    loop_in(tmp_path, model_saying(WRITES, "Done."), look, store=store).run("Write a.txt.")

    assert counts == [(1, 0), (1, 1), (1, 2), (2, 2)]


@pytest.mark.slow
def test_steps_have_snapshots(tmp_path: Path) -> None:
    """S6.1: a step lies between the tree before it and the tree after its last tool."""
    root, store = tmp_path / "project", MemoryStore()
    root.mkdir()
    snapshots = Snapshots(root, tmp_path / "snapshots")
    toolbox = toolbox_in(root, snapshots=snapshots)
    loop_in(root, model_saying(WRITES, "Done."), toolbox=toolbox, store=store).run("Write a.txt.")
    parts = [part for message in messages_in(store) for part in message.parts]
    starts = [part.snapshot for part in parts if isinstance(part, StepStartPart)]
    ends = [part.snapshot for part in parts if isinstance(part, StepFinishPart)]

    assert starts[1:] + ends[-1:] == ends
    assert [one.file for one in snapshots.diff(starts[0], ends[0])] == ["a.txt"]


# What a request holds.


def test_instructions_are_read_for_each_step(tmp_path: Path) -> None:
    """S5.5: AGENTS.md stands in the system prompt as it is on disk at each step; a folder's own once it is touched."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "AGENTS.md").write_text("Web rule.")
    edits = call("write", path="AGENTS.md", content="New rule.")
    model = model_saying(Say("", (edits, call("list", path="web"))), "Done.")
    (tmp_path / "AGENTS.md").write_text("Old rule.")
    loop_in(tmp_path, model, toolbox=toolbox_in(tmp_path, consent=lambda _: "once")).run("Change the rule.")
    before, after = (system_of(model, at) for at in (0, 1))

    assert "Old rule." in before
    assert "Web rule." not in before
    assert "New rule." in after
    assert "Old rule." not in after
    assert "Web rule." in after


def test_a_prompt_may_have_a_system_text_of_its_own(tmp_path: Path) -> None:
    """S3.3: it comes last, holds for all steps of its prompt, and not for the next prompt."""
    model = model_saying(WRITES, "Done.", "Again.")
    loop = loop_in(tmp_path, model)
    loop.run("Write.", system="Speak like a pilot.")
    loop.run("Once more.")

    assert [system_of(model, at).endswith("\n\nSpeak like a pilot.") for at in range(3)] == [True, True, False]


def test_a_prompts_system_text_is_restored(tmp_path: Path) -> None:
    """S3.3: after a restart it is that of the last user message."""
    store, model = MemoryStore(), model_saying(WRITES, "Done.")
    one_step = RunLimits(steps=1, pause_seconds=0)
    loop_in(tmp_path, model, store=store, limits=one_step).run("Write.", system="Speak like a pilot.")
    loop_in(tmp_path, model, store=store).go_on()

    assert system_of(model, 1).endswith("\n\nSpeak like a pilot.")


def test_an_agent_without_tools_is_offered_none(tmp_path: Path) -> None:
    """S3.2: an agent that may not call tools is offered none, whatever its toolbox has."""
    model = model_saying("Hello.")
    loop_in(tmp_path, model, agent=TALK).run("Hello?")

    assert "tools" not in model.requests[0].body


def test_a_long_result_is_shown_shortened(tmp_path: Path) -> None:
    """The model sees beginning and end of what is long; the log has all of it."""
    model, store = model_saying(Say("", (call("shell", command="seq 1 5000"),)), "Done."), MemoryStore()
    loop_in(tmp_path, model, store=store, limits=RunLimits(result_tokens=500)).run("Count.")
    shown = results_of(model.requests[1].messages[-1])[0].output
    kept = [result.output for message in messages_in(store) for result in results_of(message)]

    assert len(shown) < 4_000
    assert (shown[:4], shown[-4:]) == ("1\n2\n", "5000")
    assert kept == ["\n".join(map(str, range(1, 5_001)))]


# How it ends.


def test_it_stops_after_so_many_steps(tmp_path: Path) -> None:
    """A prompt takes as many steps as it may, and the next prompt goes on."""
    steps = [Say("", (call("write", path=f"f{n}", content=""),)) for n in range(3)]
    loop = loop_in(tmp_path, model_saying(*steps, "Done."), limits=RunLimits(steps=2, pause_seconds=0))

    assert (loop.run("Write three.").ending, loop.run("Go on.").ending) == ("steps", "done")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f0", "f1", "f2"]


def test_a_warned_model_may_do_better(tmp_path: Path) -> None:
    """Who does something else after the warning, which is a synthetic message, goes on."""
    same, store = Say("", (call("list"),)), MemoryStore()
    ended = loop_in(tmp_path, model_saying(*[same] * 3, WRITES, "Done."), store=store).run("What is here?")
    warnings = [message.parts for message in messages_in(store) if isinstance(message, UserMessage)][1:]

    assert (ended.ending, ended.steps) == ("done", 5)
    assert warnings == [(TextPart(LOOP_WARNING, synthetic=True),)]


def test_a_withheld_reply_ends_it(tmp_path: Path) -> None:
    """A reply that the provider withholds is reported as that, not as an answer."""
    assert loop_in(tmp_path, model_saying(Say("I", finish="content-filter"))).run("Hm?").ending == "filtered"


def test_a_reply_cut_off_ends_it_where_compacting_does_not_help(tmp_path: Path) -> None:
    """S5.3: without anything to compact a reply that ends for length is the end."""
    assert loop_in(tmp_path, model_saying(Say("And th", finish="length"))).run("Tell me.").ending == "length"


@pytest.mark.parametrize("window", [32_000, 200_000])
def test_a_reply_cut_off_is_asked_for_again_after_a_compaction(tmp_path: Path, window: int) -> None:
    """S5.3, B21: `length` forces one compaction, also in a window with room, and the model goes on with the work."""
    looks = [Say(f"Look {n}.", (call("shell", command=f"seq {n} 900"),)) for n in range(6)]
    answers = iter([*looks, Say("And th", finish="length"), Say("And then it was done.")])

    def script(request: object) -> Say:
        return Say("Six looks were taken.") if "You write the notes" in str(request) else next(answers)

    ended = loop_in(tmp_path, ScriptedModel(script), window=window).run("Tell me.")

    assert (ended.ending, ended.text) == ("done", "And then it was done.")


def test_replies_cut_off_again_and_again_end_it(tmp_path: Path) -> None:
    """S5.3, B9: a model that is cut off every time costs one compaction for each prompt, and then it is over."""
    looks = [Say(f"Look {n}.", (call("shell", command=f"seq {n} 900"),)) for n in range(6)]
    model = model_saying(*looks, Say("And th", finish="length"))
    loop = loop_in(tmp_path, model, window=200_000)

    assert loop.run("Tell me.").ending == "length"
    assert loop.run("Tell me more.").ending == "length"
    assert len(model.requests) < 20


# What goes wrong.


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_a_broken_off_reply_said_is_kept(tmp_path: Path, stop: type[BaseException]) -> None:
    """B13: an interrupt in a stream ends the run; the text so far is in the log, and the next prompt is answered."""
    store, pauses = MemoryStore(), iter([0, 0, 1])
    slow = Say("The first boat is red and so on.", trouble=Trouble(chunk_delay_seconds=1))
    model = ScriptedModel(in_turn(slow, Say("Two.")), pause=lambda _: pause(next(pauses, 0), stop))
    loop = loop_in(tmp_path, model, store=store)
    if stop is KeyboardInterrupt:
        assert loop.run("Count.").ending == "aborted"
    else:
        with pytest.raises(stop):
            loop.run("Count.")
    broken = messages_in(store)[-1]

    assert isinstance(broken, AssistantMessage)
    assert (text_of(broken), broken.finish, marks_of(broken)) == (
        "The first boat is red an",
        "abort",
        ["start", "abort"],
    )
    assert loop.run("Go on.").text == "Two."
    assert problems(OPENAI_CHAT, model.requests[-1].body["messages"]) == ()


def test_an_earlier_answer_is_not_repeated(tmp_path: Path) -> None:
    """After an interrupt before any text the earlier answer is not repeated."""
    pauses = iter([0, 0, 1])
    model = ScriptedModel(in_turn(Say("Well.")), pause=lambda _: pause(next(pauses, 0), KeyboardInterrupt))
    loop = loop_in(tmp_path, model)

    assert loop.run("Hello?").text == "Well."
    assert loop.run("And now?") == RunEnded("aborted", "s", 0, "")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_a_broken_off_tool_leaves_no_call_unanswered(tmp_path: Path, stop: type[BaseException]) -> None:
    """B12, B13: what was done is kept, what was broken off says so, what was not begun says that; the next prompt is answered."""
    store = MemoryStore()
    calls = (call("write", path="a", content="a"), call("shell", command="make"), call("read", path="a"))
    model = model_saying(Say("", calls), "Well.")
    toolbox = toolbox_in(tmp_path, rules=BUILD_RULES, consent=lambda action: stop_at(action.tool == "shell", stop))
    loop = loop_in(tmp_path, model, toolbox=toolbox, store=store)
    if stop is KeyboardInterrupt:
        assert loop.run("Make it.").ending == "aborted"
    else:
        with pytest.raises(stop):
            loop.run("Make it.")
    results = [result for message in messages_in(store) for result in results_of(message)]

    assert [(one.tool, one.status) for one in results] == [
        ("write", "completed"),
        ("shell", "interrupted"),
        ("read", "interrupted"),
    ]
    assert [one.output.partition(":")[0] for one in results[1:]] == ["not begun", "not begun"]
    assert loop.run("Go on.").text == "Well."
    assert problems(OPENAI_CHAT, model.requests[-1].body["messages"]) == ()


@pytest.mark.slow
def test_what_a_broken_off_command_said_is_kept(tmp_path: Path) -> None:
    """B13: interrupting a command that takes too long keeps its output so far."""
    store = MemoryStore()
    model = model_saying(
        Say("", (call("shell", command="echo halfway; sleep 0.3; kill -INT $PPID; sleep 30"),)), "Well."
    )
    ended = loop_in(tmp_path, model, store=store).run("Make it.")
    [result] = [result for message in messages_in(store) for result in results_of(message)]

    assert ended.ending == "aborted"
    assert result.status == "interrupted"
    assert result.output == f"{INTERRUPTED}; until then it had said:\nhalfway"


@pytest.mark.parametrize(
    ("answer", "stop", "ended"),
    [
        (Fail(401), KeyRefused, ("failed", True)),
        (Say("One two three.", trouble=Trouble(chunk_delay_seconds=1)), SystemExit, ("aborted", False)),
    ],
)
def test_every_end_is_emitted(
    tmp_path: Path, answer: ScriptedAnswer, stop: type[BaseException], ended: tuple[str, bool]
) -> None:
    """A script learns of the session and of the end of its work also where an error or a signal ends it."""
    events: list[AgentEvent] = []
    model = ScriptedModel(in_turn(answer), pause=lambda _: pause(True, stop))
    with pytest.raises(stop) as raised:
        loop_in(tmp_path, model, events.append).run("Hello?")
    last = events[-1]

    assert isinstance(events[0], RunStarted)
    assert isinstance(last, RunEnded)
    assert (last.ending, last.session_id, bool(last.problem)) == (ended[0], "s", ended[1])
    assert last.problem in ("", str(raised.value))
    assert sum(isinstance(one, RunEnded) for one in events) == 1


def test_an_empty_reply_is_reported(tmp_path: Path) -> None:
    """An empty reply is reported as a problem."""
    assert loop_in(tmp_path, model_saying("")).run("Hello?") == RunEnded("done", "s", 1, "", EMPTY_REPLY)


def test_a_reply_that_went_wrong_is_no_answer(tmp_path: Path) -> None:
    """A reply that the provider ends with an error is requested again; if that does not help, the error is raised."""
    spoilt = Say("", finish="error")

    assert loop_in(tmp_path, model_saying(WRITES, spoilt, "Done.")).run("Write a.txt.") == RunEnded(
        "done", "s", 2, "Done."
    )
    with pytest.raises(ModelBusy, match="ended the reply with an error"):
        loop_in(tmp_path, model_saying(WRITES, spoilt)).run("Write a.txt.")


def test_another_process_goes_on(tmp_path: Path) -> None:
    """B13: a call that a killed process left without an answer is answered for it, and the work goes on."""
    store, model = MemoryStore(), model_saying("It was not written.")
    calling = AssistantMessage(MessageId(""), (ToolCallPart("c1", "write", '{"path": "a"}'),), finish="tool-calls")
    session_in(store, model).add((UserMessage(MessageId(""), (TextPart("Write a."),)), calling))
    ended = loop_in(tmp_path, model, store=store).go_on()

    assert (ended.ending, ended.text) == ("done", "It was not written.")
    assert problems(OPENAI_CHAT, model.requests[-1].body["messages"]) == ()


def test_a_failure_of_the_model_is_raised(tmp_path: Path) -> None:
    """What a model refuses is raised; the prompt is kept, and may be answered later."""
    store = MemoryStore()
    loop = loop_in(tmp_path, model_saying(Fail(401), "Well."), store=store)
    with pytest.raises(KeyRefused):
        loop.run("Hello?")

    assert [text_of(message) for message in messages_in(store)] == ["Hello?"]
    assert loop.go_on().text == "Well."


def test_a_stream_that_breaks_for_good_keeps_what_it_said(tmp_path: Path) -> None:
    """B13: when no further try helps, the text of the last one is kept as an error."""
    store, events = MemoryStore(), list[AgentEvent]()
    broken = Say("The first half and more", trouble=Trouble(cut_after_events=1))
    with pytest.raises(ModelBusy):
        loop_in(tmp_path, model_saying(broken), events.append, store=store).run("Tell me.")
    kept = messages_in(store)[-1]

    assert isinstance(kept, AssistantMessage)
    assert (text_of(kept), kept.finish) == ("The first ha", "error")
    assert sum(isinstance(one, RequestRetried) for one in events) == 2


def test_a_reported_overflow_is_recovered(tmp_path: Path) -> None:
    """B7, B8: a request that is refused as too large is made smaller and sent once more; no step is lost."""
    looks = [Say(f"Look {n}.", (call("shell", command=f"seq {n} 900"),)) for n in range(6)]
    refusal = Fail(400, wire_replies.chat_overflow(40_000, 9_000))
    store, model = MemoryStore(), model_saying(*looks, refusal, Say("The looks were taken."), "Six looks.")
    ended = loop_in(tmp_path, model, store=store).run("Look.")
    entries = [entry for _, entry in store.newest_first(KEY)]

    assert (ended.ending, ended.text) == ("done", "Six looks.")
    assert any(isinstance(entry, Rejection) for entry in entries)
    assert sum(text_of(one).startswith("Look ") for one in messages_in(store)) == 6


def test_a_window_too_small_is_an_error(tmp_path: Path) -> None:
    """B9: where not even the smallest request fits, nothing is sent."""
    model = model_saying("Hello.")
    with pytest.raises(WindowExceeded):
        loop_in(tmp_path, model, window=500).run("Hello?")

    assert model.requests == ()


def test_long_instructions_leave_room_for_the_work(tmp_path: Path) -> None:
    """B9: in a small window instructions have a share; a notice says once what is left out."""
    (tmp_path / "AGENTS.md").write_text("Keep to the word list. " * 1_000)
    events: list[AgentEvent] = []
    model = model_saying(Say("", (call("list"),)), "Hello.")
    loop = loop_in(tmp_path, model, events.append, window=8_000)

    assert loop.run("Hello?").text == "Hello."
    assert "the rest of AGENTS.md is left out for its length" in system_of(model, 0)
    [noted] = [one.text for one in events if isinstance(one, Notice)]
    assert noted.startswith("too long to be given to the model whole, so it has the beginning only: AGENTS.md (")


def test_a_window_that_instructions_fill_names_them(tmp_path: Path) -> None:
    """B9: the error says which files to shorten."""
    (tmp_path / "AGENTS.md").write_text("Keep to the word list. " * 100)
    with pytest.raises(WindowExceeded, match=r"instructions in AGENTS\.md: shorten those first"):
        loop_in(tmp_path, model_saying("Hello."), window=500).run("Hello?")


# Small things.


def marks_of(message: Message) -> list[str]:
    """Where a step begins or ends in a message."""
    return [
        part.reason if isinstance(part, StepFinishPart) else "start"
        for part in message.parts
        if isinstance(part, StepStartPart | StepFinishPart)
    ]


def system_of(model: ScriptedModel, at: int) -> str:
    """The system prompt of a request."""
    return " ".join(text_of(one) for one in model.requests[at].messages if isinstance(one, SystemMessage))


def pause(is_due: object, stop: type[BaseException]) -> None:
    """Interrupt a pause when it is due."""
    if is_due:
        raise stop


def stop_at(is_due: object, stop: type[BaseException]) -> Consent:
    """Interrupt when it is due, and consent otherwise."""
    if is_due:
        raise stop
    return "once"
