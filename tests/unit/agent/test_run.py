"""Opening a run: session, model, tools and rules together, as settings say."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.policies import FOLDS_SETTING

from infold.agent.events import SessionTitled, SummaryStarted
from infold.agent.run import AgentRun, RunEvent, RunOptions, UserInterface, open_run
from infold.agent.trust import default_snapshot_folder
from infold.catalogue.served import Question
from infold.core.events import Compacted, SummaryProgressed, SummaryRejected, WindowFound
from infold.core.messages import (
    AssistantMessage,
    ModelRef,
    SessionId,
    StepStartPart,
    Usage,
    UserMessage,
    results_of,
    text_of,
)
from infold.errors import UsageError
from infold.ports import FullStore, SessionKey
from infold.session.titles import SESSION, titles_of
from infold.settings import read_settings
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Say, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_model import ScriptedModel

from .builders import Ticking, call, messages_in, model_saying, never

KEY = SessionKey("", SessionId("s"))
LISTS = Say("", (call("shell", command="echo hi"),))
PLAIN = {"INFOLD_AGENT_TITLES": "false", "INFOLD_AGENT_SNAPSHOTS": "false"}
"""An agent that calls its model only for the work."""


def open_in(
    folder: Path,
    model: ScriptedModel,
    events: list[RunEvent] | None = None,
    *,
    store: FullStore | None = None,
    variables: dict[str, str] = PLAIN,
    **given: Any,
) -> AgentRun:
    """Open a run in the project of a folder, which is also the home folder."""
    root = folder / "project"
    root.mkdir(exist_ok=True)
    environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), **variables}
    options = RunOptions(root=root, environ=environ, clock=Ticking(), **{"window": 64_000, **given})
    ui = UserInterface((lambda _: None) if events is None else events.append, never)
    kept = MemoryStore() if store is None else store
    return open_run(kept, KEY, model, options=options, settings=read_settings(environ, root), ui=ui)


def statuses(store: FullStore) -> list[str]:
    """How the calls of the session went."""
    return [result.status for message in messages_in(store) for result in results_of(message)]


def offered(model: ScriptedModel) -> set[str]:
    """The tools of the first request."""
    return {tool["function"]["name"] for tool in model.requests[0].body.get("tools", ())}


def test_a_new_session_is_named_and_a_known_one_is_not(tmp_path: Path) -> None:
    """S6.2: the first prompt gives the title; a second one, or another process, changes nothing."""
    store, events = MemoryStore(), list[RunEvent]()
    run = open_in(tmp_path, model_saying("Hello."), events, store=store)
    run.run("Count the boats")
    run.run("And the ships")
    open_in(tmp_path, model_saying("Hello."), events, store=store).run("And the buoys")

    assert [one.text for one in events if isinstance(one, SessionTitled)] == ["Count the boats"]


def test_every_prompt_has_a_title(tmp_path: Path) -> None:
    """S6.2: each message of a person gets a title by code, what a program puts there gets none."""
    store = MemoryStore()
    run = open_in(tmp_path, model_saying(LISTS, "Hello."), store=store, allow=("shell",))
    run.run("**Count** the boats\n\nin the harbour")
    open_in(tmp_path, model_saying("Hello."), store=store).run("And the ships")
    entries = [entry for _, entry in store.newest_first(KEY)][::-1]
    prompts = [message.id for message in messages_in(store) if isinstance(message, UserMessage)]

    assert titles_of(entries) == {
        SESSION: "Count the boats",
        prompts[0]: "Count the boats",
        prompts[1]: "And the ships",
    }


def test_the_models_title_is_the_first_prompts_too(tmp_path: Path) -> None:
    """S6.2: one call names the session and the message it began with; later messages cost no call."""
    store, model = MemoryStore(), model_saying("Hello.", "Boats", "Hello again.")
    run = open_in(tmp_path, model, store=store, variables={"INFOLD_AGENT_SNAPSHOTS": "false"})
    run.run("Count the boats")
    run.run("And the ships")
    titles = titles_of([entry for _, entry in store.newest_first(KEY)][::-1])

    assert sorted(titles.values()) == ["And the ships", "Boats", "Boats"]
    assert len(model.requests) == 3


def test_each_summary_has_a_start(tmp_path: Path) -> None:
    """S3.10: the pieces of a rejected summary can be separated from those of the next one."""
    events: list[RunEvent] = []
    answers = iter(["No.", "The boats were counted: there are twelve of them, and none is missing."])

    def script(request: ScriptedRequest) -> Say:
        return Say(next(answers, "Counted.")) if "You write the notes" in str(request) else Say("Twelve boats. " * 40)

    run = open_in(tmp_path, ScriptedModel(script), events)
    for _ in range(3):
        run.run("Count the boats.")
    events.clear()
    run.session.compact()
    begun = [at for at, one in enumerate(events) if isinstance(one, SummaryStarted)]

    assert len(begun) == 2
    assert isinstance(events[begun[0] + 1], SummaryProgressed)
    assert isinstance(events[begun[1] + 1], SummaryProgressed)


def test_a_failed_summary_is_reported_with_its_reason(tmp_path: Path) -> None:
    """B36: the status and message of a failed summary are reported, once, and it is requested once."""
    events: list[RunEvent] = []

    def script(request: ScriptedRequest) -> ScriptedAnswer:
        return Fail(401) if "You write the notes" in str(request) else Say("Twelve boats. " * 40)

    run = open_in(tmp_path, ScriptedModel(script), events)
    for _ in range(3):
        run.run("Count the boats.")
    run.session.compact()
    (rejected,) = [one for one in events if isinstance(one, SummaryRejected)]

    assert rejected.faults == ("failed",)
    assert "scripted failure of status 401" in rejected.error
    assert len([one for one in events if isinstance(one, SummaryStarted)]) == 1


def test_it_goes_on_where_it_stands(tmp_path: Path) -> None:
    """B13: another process takes the session up without a new prompt."""
    store = MemoryStore()
    open_in(tmp_path, model_saying(LISTS), store=store, steps=1).run("List.")
    ended = open_in(tmp_path, model_saying("Listed."), store=store).go_on()

    assert ended.text == "Listed."


@pytest.mark.slow
def test_trees_are_kept_unless_settings_say_otherwise(tmp_path: Path) -> None:
    """S6.1: by default each step has its snapshot, in the user's own folder."""
    store = MemoryStore()
    open_in(tmp_path, model_saying("Hello."), store=store, variables={"INFOLD_AGENT_TITLES": "false"}).run("Hello?")
    starts = [part for message in messages_in(store) for part in message.parts if isinstance(part, StepStartPart)]

    assert all(part.snapshot for part in starts)
    assert default_snapshot_folder({"HOME": str(tmp_path)}).is_dir()


# What it may do.


def test_commands_are_asked_for(tmp_path: Path) -> None:
    """Without permission a command is not run, since the user refuses."""
    store = MemoryStore()
    open_in(tmp_path, model_saying(LISTS, "No."), store=store).run("List.")

    assert statuses(store) == ["error"]


@pytest.mark.parametrize("allow", ["shell", "shell:echo *", "*"])
def test_a_run_may_allow_actions(tmp_path: Path, allow: str) -> None:
    """What is allowed on the command line is done unasked."""
    store = MemoryStore()
    open_in(tmp_path, model_saying(LISTS, "Yes."), store=store, allow=(allow,)).run("List.")

    assert statuses(store) == ["completed"]


def test_denials_in_settings_are_final(tmp_path: Path) -> None:
    """A denial is final, whatever is allowed for this work."""
    store, denied = MemoryStore(), {**PLAIN, "INFOLD_PERMISSIONS_DENY": "shell:echo *"}
    open_in(tmp_path, model_saying(LISTS, "No."), store=store, variables=denied, allow=("*",)).run("List.")

    assert statuses(store) == ["error"]


def test_an_agent_that_plans_cannot_be_made_to_write(tmp_path: Path) -> None:
    """The agent's own denials are final too; the tools are not even offered."""
    model = model_saying("Hm.")
    open_in(tmp_path, model, agent="plan", allow=("*",)).run("Plan.")

    assert offered(model) & {"write", "edit", "read"} == {"read"}


def test_recall_is_offered_unless_settings_say_otherwise(tmp_path: Path) -> None:
    """B6: the model can bring back what left its view."""
    with_it, without = model_saying("Hm."), model_saying("Hm.")
    open_in(tmp_path, with_it).run("Hello?")
    open_in(tmp_path, without, variables={**PLAIN, "INFOLD_RECALL_ENABLED": "false"}).run("Hello?")

    assert "recall" in offered(with_it)
    assert "recall" not in offered(without)


def test_a_model_too_small_for_tools_talks(tmp_path: Path) -> None:
    """A model that cannot call tools is offered none, is not asked for titles, and writes no summaries."""
    model = ScriptedModel(ref=ModelRef("embedded", "smollm2-135m-instruct"))
    store = MemoryStore()
    open_in(tmp_path, model, store=store, variables={"INFOLD_AGENT_SNAPSHOTS": "false"}).run("Hello?")
    reply = messages_in(store)[-1]

    assert isinstance(reply, AssistantMessage)
    assert (offered(model), reply.agent, len(model.requests)) == (set(), "talk", 1)


@pytest.mark.parametrize(
    ("given", "problem"), [({"agent": "nobody"}, "no agent 'nobody'"), ({"allow": ("bash",)}, "no tool 'bash'")]
)
def test_an_unknown_name_is_an_error(tmp_path: Path, given: dict[str, Any], problem: str) -> None:
    """An unknown agent or rule is an error before anything begins."""
    with pytest.raises(UsageError, match=problem):
        open_in(tmp_path, model_saying("Hm."), **given)


# How its session is kept.


def test_its_own_model_writes_the_summaries(tmp_path: Path) -> None:
    """S3.2: the model that works is asked for summaries, in the compaction agent's name."""
    count = iter(range(100))

    def script(request: ScriptedRequest) -> Say:
        if "You write the notes" in text_of(request.messages[0]):
            return Say("The numbers were counted, one line after the other.")
        at = next(count)
        return Say(f"Look {at}.", (call("shell", command=f"seq {at} 900"),)) if at < 8 else Say("Done.")

    events: list[RunEvent] = []
    run = open_in(
        tmp_path, ScriptedModel(script), events, variables=PLAIN | FOLDS_SETTING, window=8_000, allow=("shell",)
    )
    ended = run.run("Count.")
    compactions = [one for one in events if isinstance(one, Compacted)]

    assert ended.ending == "done"
    assert compactions
    assert {one.summariser for one in compactions} == {"scripted"}


@pytest.mark.parametrize(
    ("policy", "variables", "toml"),
    [
        ("opencode-1.1.23", {"INFOLD_DISABLE_AUTOCOMPACT": "1"}, ""),
        ("opencode-1.1.57", {"INFOLD_COMPACTION_AUTO": "false"}, ""),
        ("proactive", {}, "compaction.auto = false"),
        ("infold", {}, "[agents.build]\ncompaction.auto = false"),
        ("turn-window", {}, "[models.'scripted*']\ncompaction.auto = false"),
    ],
)
def test_a_chosen_policy_keeps_what_is_off(tmp_path: Path, policy: str, variables: dict[str, str], toml: str) -> None:
    """S1.0, S8.1, S8.2, B19: a preset named for this work does not bring back what variables, files and their tables turn off."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "infold.toml").write_text(toml)
    events: list[RunEvent] = []
    full = Say("Hm.", usage=Usage(input=63_000, output=900))
    run = open_in(tmp_path, model_saying(full), events, variables={**PLAIN, **variables}, policy=policy)
    run.run("Count the boats.")
    run.run("And the ships.")

    assert (run.session.policy.name, run.session.policy.auto) == (policy, False)
    assert not [one for one in events if isinstance(one, Compacted)]


def test_a_chosen_window_wins_over_settings(tmp_path: Path) -> None:
    """S8.1: a window named for this work is the one the session is kept in, whatever settings say."""
    run = open_in(tmp_path, model_saying("Hm."), variables={**PLAIN, "INFOLD_WINDOW": "100k"}, window=32_000)

    assert (run.session.window_tokens, run.session.policy.window_tokens) == (32_000, 32_000)


def test_steps_are_bounded_by_settings_or_for_this_work(tmp_path: Path) -> None:
    """The option of a run wins over settings."""
    looks = [Say("", (call("list", glob=f"*{n}"),)) for n in range(9)]
    two = {**PLAIN, "INFOLD_AGENT_STEPS": "2"}

    assert open_in(tmp_path, model_saying(*looks), variables=two).run("Look.").steps == 2
    assert open_in(tmp_path, model_saying(*looks), variables=two, steps=3).run("Look.").steps == 3


class ServedByUs(ScriptedModel):
    """A model whose server reports its window."""

    def ask_server(self, question: Question) -> bytes | None:
        """Answer as vLLM does."""
        return b'{"data": [{"id": "x", "max_model_len": 12288}]}' if question.url.endswith("/v1/models") else None


def test_the_agents_server_is_asked_for_its_window(tmp_path: Path) -> None:
    """B11: a model at an address of the user's own has the window its server reports, unless a window is stated."""
    events: list[RunEvent] = []
    model, address = ServedByUs(lambda _: Say("yes")), "http://localhost:8000/v1"
    work = open_in(tmp_path, model, events, window=0, address=address)

    assert work.session.window_tokens == 12_288
    assert [event.window_tokens for event in events if isinstance(event, WindowFound)] == [12_288]
    assert open_in(tmp_path, model, window=64_000, address=address).session.window_tokens == 64_000
    assert open_in(tmp_path, model, window=0).session.window_tokens != 12_288


def test_a_working_window_is_an_option_of_the_agent(tmp_path: Path) -> None:
    """B11: a run works in the working window of its options, or of the settings."""
    model = ScriptedModel(lambda _: Say("yes"))
    given = open_in(tmp_path, model, working_window=20_000).session.policy
    stated = open_in(tmp_path, model, variables={**PLAIN, "INFOLD_WORKING_WINDOW": "30k"}).session.policy

    assert (given.working_window_tokens, stated.working_window_tokens) == (20_000, 30_000)


def test_price_is_a_reason_for_the_agent_where_tokens_cost_money(tmp_path: Path) -> None:
    """B16: the option wins over the settings; by `auto` a local address and a Claude login are not paid."""
    model = ScriptedModel(lambda _: Say("yes"), ref=ModelRef("anthropic", "claude-opus-5"))
    local, login = "http://127.0.0.1:8000/v1", ScriptedModel(lambda _: Say("yes"), ref=model.ref)
    login.credential = "sk-ant-oat01-AAAA"  # type: ignore[attr-defined]  # as a model of Anthropic's SDK has it
    stated = {**PLAIN, "INFOLD_COMPACTION_PRICED": "always"}

    def priced(of: ScriptedModel = model, **given: Any) -> str:
        return open_in(tmp_path, of, **given).session.policy.priced

    assert (priced(), priced(address=local), priced(login)) == ("auto", "never", "never")
    assert (priced(priced="never"), priced(address=local, priced="always")) == ("never", "always")
    assert (priced(variables=stated, address=local), priced(variables=stated, priced="never")) == ("always", "never")
