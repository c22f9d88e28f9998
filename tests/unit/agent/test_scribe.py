"""What an agent's session holds of its work."""

from infold.agent.agents import BUILD
from infold.agent.session_writer import Scribe
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

from .workshop import call, messages_in, model_saying, session_in

ROOT = "/work"


def scribe_in(store: MemoryStore, model: ScriptedModel) -> Scribe:
    """A scribe for session `s`."""
    return Scribe(session_in(store, model), model, BUILD, root=ROOT)


def body_of(model: ScriptedModel) -> dict[str, object]:
    """What the model says next."""
    (replied,) = [heard for heard in model.stream(ModelRequest([])) if isinstance(heard, Replied)]
    return replied.body


def test_a_prompt_names_who_is_to_answer() -> None:
    """S3.1, S3.3: agent, model and its own system text are in the log; what no person said is marked."""
    store, model = MemoryStore(), model_saying("Hi.")
    scribe = scribe_in(store, model)
    scribe.own = "Answer in rhyme."
    scribe.put("Hello?")
    scribe.put("Go on.", synthetic=True)
    first, second = messages_in(store)

    assert isinstance(first, UserMessage)
    assert (first.agent, first.model, first.system) == ("build", model.ref, "Answer in rhyme.")
    assert second.parts[0].synthetic  # type: ignore[union-attr]


def test_own_system_text_is_found_again() -> None:
    """S3.3: after a restart it is that of the last user message; without one there is none."""
    store, model = MemoryStore(), model_saying("Hi.")
    scribe_in(store, model).recall_own()
    before = scribe_in(store, model)
    before.own = "Answer in rhyme."
    before.put("Hello?")
    after = scribe_in(store, model)
    after.recall_own()

    assert after.own == "Answer in rhyme."


def test_a_reply_carries_the_marks_of_its_step() -> None:
    """S3.6, S6.1: a reply that calls nothing begins and ends its step; one with calls leaves the end to their results."""
    store, model = MemoryStore(), model_saying(Say(calls=(call("list"),)), "All is well.")
    scribe = scribe_in(store, model)
    scribe.put("Look around.")
    calling = scribe.reply(body_of(model), "tree-1")
    result = ToolResultPart(calling.parts[0].call_id, "list", "a\nb")  # type: ignore[union-attr]
    scribe.last_results((result,), calling, "tree-2", longest_tokens=100)
    said = scribe.reply(body_of(model), "tree-2")

    assert calling.parts[-1] == StepStartPart("tree-1")
    assert (calling.agent, calling.path, calling.parent_id) == ("build", WorkPath(ROOT, ROOT), "m0")
    results = messages_in(store)[2]
    assert isinstance(results, ToolMessage)
    assert isinstance(results.parts[-1], StepFinishPart)
    assert (results.parts[-1].reason, results.parts[-1].snapshot) == ("tool-calls", "tree-2")
    assert [type(part) for part in said.parts[1:]] == [StepStartPart, StepFinishPart]


def test_a_reply_that_was_broken_off_is_kept() -> None:
    """B13: with why it ended; one that had said nothing leaves nothing."""
    store, model = MemoryStore(), model_saying("Hi.")
    scribe = scribe_in(store, model)
    scribe.put("Hello?")
    scribe.broken_off("  ", "abort", "")
    scribe.broken_off("Well, I", "abort", "tree")
    kept = messages_in(store)[-1]

    assert len(messages_in(store)) == 2
    assert isinstance(kept, AssistantMessage)
    assert kept.finish == "abort"
    assert kept.parts[-1] == StepFinishPart("abort", "tree")


def test_a_step_that_goes_on_has_no_end() -> None:
    """Results before the last are kept as they are, with no mark."""
    store, model = MemoryStore(), model_saying(Say(calls=(call("list"), call("list"))))
    scribe = scribe_in(store, model)
    scribe.put("Look around.")
    calling = scribe.reply(body_of(model), "")
    scribe.results((ToolResultPart(calling.parts[0].call_id, "list", "a"),), longest_tokens=100)  # type: ignore[union-attr]

    assert messages_in(store)[-1].parts == (ToolResultPart(calling.parts[0].call_id, "list", "a"),)  # type: ignore[union-attr]
