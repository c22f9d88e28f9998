"""What is written to an agent's session."""

from infold.agent.agents import BUILD
from infold.agent.loop import SessionWriter
from infold.core.messages import (
    AssistantMessage,
    StepFinishPart,
    StepStartPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    WorkPath,
)
from infold.ports import ModelRequest, Replied
from infold.stores.memory import MemoryStore
from infold.testing.script import Say
from infold.testing.scripted_model import ScriptedModel

from .builders import call, messages_in, model_saying, session_in

ROOT = "/work"


def writer_in(store: MemoryStore, model: ScriptedModel) -> SessionWriter:
    """Return a writer for session `s`."""
    return SessionWriter(session_in(store, model), model, BUILD, root=ROOT)


def body_of(model: ScriptedModel) -> dict[str, object]:
    """Return the body of the model's next reply."""
    (replied,) = [heard for heard in model.stream(ModelRequest([])) if isinstance(heard, Replied)]
    return replied.body


def test_a_prompt_names_its_agent_and_model() -> None:
    """S3.1, S3.3: agent, model and the prompt's system text are in the log; synthetic text is marked."""
    store, model = MemoryStore(), model_saying("Hi.")
    writer = writer_in(store, model)
    writer.system = "Answer in rhyme."
    writer.add_prompt("Hello?")
    writer.add_prompt("Go on.", synthetic=True)
    first, second = messages_in(store)

    assert isinstance(first, UserMessage)
    assert (first.agent, first.model, first.system) == ("build", model.ref, "Answer in rhyme.")
    assert second.parts[0].synthetic  # type: ignore[union-attr]


def test_a_prompts_system_text_is_restored() -> None:
    """S3.3: after a restart it is that of the last user message, or empty without one."""
    store, model = MemoryStore(), model_saying("Hi.")
    writer_in(store, model).restore_system()
    before = writer_in(store, model)
    before.system = "Answer in rhyme."
    before.add_prompt("Hello?")
    after = writer_in(store, model)
    after.restore_system()

    assert after.system == "Answer in rhyme."


def test_a_reply_carries_the_marks_of_its_step() -> None:
    """S3.6, S6.1: a reply without calls begins and ends its step; the last results end that of a reply with calls."""
    store, model = MemoryStore(), model_saying(Say(calls=(call("list"),)), "All is well.")
    writer = writer_in(store, model)
    writer.add_prompt("Look around.")
    calling = writer.add_reply(body_of(model), "tree-1")
    result = ToolResultPart(calling.parts[0].call_id, "list", "a\nb")  # type: ignore[union-attr]
    writer.add_results((result,), calling, "tree-2", longest_tokens=100)
    said = writer.add_reply(body_of(model), "tree-2")

    assert calling.parts[-1] == StepStartPart("tree-1")
    assert (calling.agent, calling.path, calling.parent_id) == ("build", WorkPath(ROOT, ROOT), "m0")
    results = messages_in(store)[2]
    assert isinstance(results, ToolMessage)
    assert isinstance(results.parts[-1], StepFinishPart)
    assert (results.parts[-1].reason, results.parts[-1].snapshot) == ("tool-calls", "tree-2")
    assert [type(part) for part in said.parts[1:]] == [StepStartPart, StepFinishPart]


def test_a_partial_reply_is_written() -> None:
    """B13: with the reason; a blank one is not."""
    store, model = MemoryStore(), model_saying("Hi.")
    writer = writer_in(store, model)
    writer.add_prompt("Hello?")
    writer.add_partial_reply("  ", "abort", "")
    writer.add_partial_reply("Well, I", "abort", "tree")
    kept = messages_in(store)[-1]

    assert len(messages_in(store)) == 2
    assert isinstance(kept, AssistantMessage)
    assert kept.finish == "abort"
    assert kept.parts[-1] == StepFinishPart("abort", "tree")


def test_a_step_that_goes_on_has_no_end() -> None:
    """Results before the last do not end the step."""
    store, model = MemoryStore(), model_saying(Say(calls=(call("list"), call("list"))))
    writer = writer_in(store, model)
    writer.add_prompt("Look around.")
    calling = writer.add_reply(body_of(model), "")
    writer.add_results((ToolResultPart(calling.parts[0].call_id, "list", "a"),), calling, None, longest_tokens=100)  # type: ignore[union-attr]

    assert messages_in(store)[-1].parts == (ToolResultPart(calling.parts[0].call_id, "list", "a"),)  # type: ignore[union-attr]
