"""Thinking that a model binds to what stands before it, over many steps and compactions, through every way to infold.

Each reply thinks, most call several tools at once, and clients with a socket stream. Native compaction, which keeps thinking
over a cut, has a module of its own.
"""

from pathlib import Path
from typing import Any

import anthropic
import pytest

from infold import Session, SessionSettings, open_store, wrap
from infold.agent.agents import BUILD
from infold.agent.loop import Loop, RunLimits
from infold.core.events import Rejected
from infold.core.messages import ModelRef
from infold.models.anthropic import AnthropicMessages
from infold.testing.anthropic_rules import AnthropicRefusal, AnthropicRules
from infold.testing.script import ScriptedAnswer, ScriptedRequest

from ..unit.agent.builders import toolbox_in  # noqa: TID252 - `tests` is no package to name
from .thinking_scenes import (
    MANUAL,
    MODEL,
    OLDER,
    STEPS,
    SYSTEM,
    TOOLS,
    UNKNOWN,
    WAYS,
    WINDOW,
    HiddenThinker,
    Scene,
    Thinker,
    Way,
    Worker,
    ask_client,
    by_turns,
    client_of,
    dropping,
    through_session,
)

pytestmark = pytest.mark.slow

HAIKU = "claude-haiku-5-5"
DAY = 20
"""Steps that a client works in a day."""
RECOVERING = tuple(name for name in WAYS if name != "fit")
LEARNING = tuple(WAYS[name] for name in ("wrap", "async wrap", "gateway"))
"""Ways that recover by themselves: they keep the thinking of every model until a refusal shows that it is bound."""


def through(*short: str, also: tuple[str, ...] = RECOVERING) -> pytest.MarkDecorator:
    """These ways in every run, the others of `also` in long ones."""
    params = [
        pytest.param(way, id=name, marks=() if name in short else pytest.mark.long)
        for name, way in WAYS.items()
        if name in (*short, *also)
    ]
    return pytest.mark.parametrize("way", params)


@through(*WAYS)
def test_a_known_model_never_refuses(way: Way) -> None:
    """B32: over 120 steps and eight cuts a client sees no refusal; the first one is met where refusals are recovered."""
    scene = Scene(AnthropicRules(Thinker()), streams=True)
    worker = way(scene)

    assert (worker.refused, len(scene.rules.refusals)) == (0, int(way in LEARNING))
    assert len(worker.thinking) == STEPS + 1
    assert max(len(request.kept) for request in scene.requests[60:]) >= 5
    assert scene.cuts >= 8 or not scene.events
    assert scene.rejections == int(way in LEARNING)


@pytest.mark.long
@through(also=("wrap", "async wrap", "gateway"))
def test_whole_replies_are_no_different(way: Way) -> None:
    """B32: the same without streaming."""
    scene = Scene(AnthropicRules(Thinker()))

    assert way(scene).refused == 0
    assert len(scene.rules.refusals) == 1


@through("Session", "gateway")
@pytest.mark.parametrize("prunes", [True, False], ids=["prunes", "folds"])
def test_an_unknown_model_refuses_once(way: Way, prunes: bool) -> None:
    """B32: a refusal teaches that a model binds thinking, once for the session, and the client does not notice."""
    scene = Scene(AnthropicRules(Thinker(), binds=True), UNKNOWN, streams=True, prunes=prunes)
    worker = way(scene)

    assert worker.refused == 0
    assert len(worker.thinking) == STEPS + 1
    assert len(scene.rules.refusals) == 1
    assert scene.rejections == 1
    assert (scene.cuts if prunes else scene.folds) >= 8


@through("Session", "gateway")
def test_a_model_may_start_to_bind(way: Way) -> None:
    """B32: a model that begins to bind thinking in the middle of a session, after several cuts, is refused once."""
    thinker = Thinker()

    def model(request: ScriptedRequest) -> ScriptedAnswer:
        rules.binds = thinker.replies >= STEPS // 2
        return thinker(request)

    rules = AnthropicRules(model, binds=False)
    scene = Scene(rules, UNKNOWN, streams=True)
    worker = way(scene)

    assert worker.refused == 0
    assert len(worker.thinking) == STEPS + 1
    assert len(rules.refusals) == 1
    assert not any(request.bare for request in scene.requests[: STEPS // 2])


@through("fit", "Session", also=tuple(WAYS))
@pytest.mark.parametrize("model", [OLDER, pytest.param(UNKNOWN, marks=pytest.mark.long)])
def test_without_binding_all_thinking_is_kept(way: Way, model: str) -> None:
    """B12, B32: a model that wants the thinking of an open loop gets all that the kept messages hold."""
    scene = Scene(AnthropicRules(Thinker(), binds=False), model, {"thinking": MANUAL, "max_tokens": 2_000})
    worker = way(scene)

    assert (worker.refused, scene.rules.refusals) == (0, [])
    assert min(len(request.kept) for request in scene.requests[-40:]) >= 1
    assert not any(request.bare for request in scene.requests)


@through("Session", also=tuple(WAYS))
def test_an_older_account_keeps_all_thinking(way: Way) -> None:
    """B32: an account whose requests are not checked loses no thinking of a model that the catalogue does not list."""
    scene = Scene(AnthropicRules(Thinker(), binds=True, is_enforced=False), UNKNOWN)

    assert way(scene).refused == 0
    assert not any(request.bare or request.dropped for request in scene.requests)


@through("Session", "wrap", "gateway")
def test_an_account_that_is_not_checked_keeps_all_thinking_of_a_known_model(way: Way) -> None:
    """B32: where a refusal is recovered, the model's name takes no thinking away: none is missing from what the view shows."""
    scene = Scene(AnthropicRules(Thinker(), is_enforced=False), steps=60, settings={"recovers": True})

    assert way(scene).refused == 0
    assert scene.cuts >= 3
    assert not any(request.bare or request.dropped for request in scene.requests)


@through("Session", also=tuple(WAYS))
def test_a_client_that_asks_for_dropping_keeps_its_thinking(way: Way) -> None:
    """B32: where the request asks the provider to drop bound thinking, nothing is removed, and no summary is refused."""
    scene = dropping(AnthropicRules(Thinker()), streams=True)
    worker = way(scene)

    assert (worker.refused, scene.rules.refusals) == (0, [])
    assert any(request.dropped for request in scene.requests)
    assert not any(request.bare for request in scene.requests)


@through("Session", also=tuple(WAYS))
@pytest.mark.parametrize(
    "models", [(MODEL, OLDER), pytest.param((MODEL, HAIKU, OLDER, HAIKU), marks=pytest.mark.long)], ids=len
)
def test_a_model_may_be_changed(way: Way, models: tuple[str, ...]) -> None:
    """B32: models that bind thinking and one that does not take turns in one session, and a client sees no refusal."""
    scene = Scene(AnthropicRules(Thinker()), by_turns(*models, every=15 if len(models) == 2 else 7), streams=True)
    worker = way(scene)

    assert (worker.refused, len(scene.rules.refusals)) == (0, int(way in LEARNING))
    assert len(worker.thinking) == STEPS + 1
    used = {request.body["model"] for request in scene.requests if request.kept}
    assert used == set(models)


@pytest.mark.long
@through()
def test_an_unknown_model_among_known_ones_refuses_once(way: Way) -> None:
    """B32: what an unknown model teaches is kept while the session goes on with others."""
    scene = Scene(AnthropicRules(Thinker(), binds=True), by_turns(UNKNOWN, MODEL, HAIKU, every=9), streams=True)
    worker = way(scene)

    assert worker.refused == 0
    assert len(scene.rules.refusals) == 1


@through("Session", also=tuple(WAYS))
def test_hidden_thinking_is_kept_and_removed_whole(way: Way) -> None:
    """B32: empty and redacted thinking, and several blocks in one reply, are bound like any other."""
    scene = Scene(AnthropicRules(HiddenThinker()), streams=True)
    worker = way(scene)

    assert (worker.refused, len(scene.rules.refusals)) == (0, int(way in LEARNING))
    assert max(len(request.kept) for request in scene.requests[60:]) >= 8


@through("Session")
def test_a_client_may_change_its_system_prompt(way: Way) -> None:
    """B32: a change that the client makes costs one refusal, which the client does not see, and so does the first cut
    where the model's name takes no thinking away."""
    scene = DatedScene(AnthropicRules(Thinker()), streams=True)
    worker = way(scene)

    assert worker.refused == 0
    assert len(worker.thinking) == STEPS + 1
    assert 0 < len(scene.rules.refusals) <= STEPS // DAY + int(way in LEARNING)


class DatedScene(Scene):
    """A client whose system prompt says what day it is."""

    def body(self, worker: Worker, messages: list[Any] | None = None) -> dict[str, Any]:
        """The request of that day."""
        return {**super().body(worker, messages), "system": f"{SYSTEM} It is day {worker.step // DAY}."}


@pytest.mark.parametrize(("model", "most"), [(MODEL, 0), (UNKNOWN, 1)])
@pytest.mark.parametrize("prunes", [True, False], ids=["prunes", "folds"])
def test_compactions_on_demand_and_their_undoing_are_no_cause(model: str, most: int, prunes: bool) -> None:
    """B32: after a compaction that was asked for, and after one that was undone, nothing is refused."""
    scene = Scene(AnthropicRules(Thinker(), binds=True), model, prunes=prunes)
    session = Session(open_store("memory"), "s", scene.session_settings(0))

    def ask(worker: Worker) -> dict[str, Any]:
        if worker.step % 17 == 5:
            session.compact()
        if worker.step % 13 == 7:
            session.undo(newest_cut(session))
        ready = session.prepare(worker.items, system=SYSTEM, tools=TOOLS, output_tokens=400)
        try:
            reply = scene.ask(worker, ready.messages)
        except AnthropicRefusal as refusal:
            again = session.recover(refusal)
            assert again is not None
            reply = scene.ask(worker, again.messages)
        session.record(reply)
        return reply

    worker = Worker().run(ask)

    assert worker.refused == 0
    assert len(worker.thinking) == STEPS + 1
    assert len(scene.rules.refusals) == most


def newest_cut(session: Session) -> int:
    """The number of the newest pruning that still hides something, or of the newest fold if that is newer."""
    hidden = (stack for altered in session.log.altered.values() for stack in altered.hidden_by.values())
    return max((session.log.checkpoint_sequence, *(hiding.by for stack in hidden for hiding in stack)))


@through("Session", also=tuple(WAYS))
@pytest.mark.parametrize("model", ["us.anthropic.claude-opus-5-5-v1:0", "claude-sonnet-5-5@20260901"])
def test_other_routes_bind_too(way: Way, model: str) -> None:
    """B32: the names of Bedrock's Messages form and of Vertex are known to bind thinking."""
    scene = Scene(AnthropicRules(Thinker()), model, streams=True)
    worker = way(scene)

    assert (worker.refused, len(scene.rules.refusals)) == (0, int(way in LEARNING))
    assert len(worker.thinking) == STEPS + 1


@pytest.mark.parametrize(("model", "most"), [(MODEL, 0), (UNKNOWN, 1)])
def test_the_agent_works_through(model: str, most: int, tmp_path: Path) -> None:
    """B32: the agent ends every task though its model binds thinking; an unknown one refuses once, and the session remembers."""
    thinker = Thinker(tool="shell", most_calls=2)
    scene = Scene(AnthropicRules(thinker, binds=True), model)
    ending = through_agent(scene, tmp_path)

    assert ending == "done"
    assert thinker.replies == STEPS
    assert len(scene.rules.refusals) == most
    assert scene.cuts >= 3


def through_agent(scene: Scene, folder: Path) -> str:
    """The agent's own loop and model, on a store; gives how it ended."""
    (folder / "Makefile").write_text("step-%:\n\t@seq 700 | sed 's/^/compiling the module $@ /' | head -90\n")
    with scene.server() as server:
        asked = AnthropicMessages(ModelRef("anthropic", scene.model_at(0)), client_of(server.url))
        settings = scene.shared_settings(
            model=scene.model_at(0), format="anthropic-messages", summariser=asked.summarise
        )
        session = Session(open_store("memory"), "s", settings)
        loop = Loop(session, asked, BUILD, toolbox_in(folder), emit=lambda _: None, limits=RunLimits(output_tokens=400))
        for _ in range(STEPS // 10):
            ended = loop.run("Go on with the next part.").ending
    return ended


def test_a_session_remembers_in_another_process(tmp_path: Path) -> None:
    """B32: what a refusal taught is in the store; whoever opens the session next is refused nothing, after folds too."""
    scene, place = Scene(AnthropicRules(Thinker(), binds=True), UNKNOWN), str(tmp_path / "sessions.sqlite3")
    refused: list[int] = []
    worker = Worker()
    for number, new in enumerate(worker.turns()):
        if number % 8 == 0:
            store = open_store(place)
            settings = SessionSettings(model=UNKNOWN, window=WINDOW, format="anthropic-messages")
            session = Session(store, "s", settings)
        worker.items.append(new)
        ready = session.prepare(worker.items, system=SYSTEM, tools=TOOLS, output_tokens=400)
        try:
            reply = scene.ask(worker, ready.messages)
        except AnthropicRefusal as refusal:
            refused.append(number)
            again = session.recover(refusal)
            assert again is not None
            reply = scene.ask(worker, again.messages)
        session.record(reply)
        worker.take(reply)
        if number % 8 == 7:
            store.close()
    store.close()

    assert len(refused) == 1


SHORT_STEPS = 20
"""Enough steps for a first cut."""


def test_one_refusal_teaches_all_sessions_of_an_account(tmp_path: Path) -> None:
    """B32: a caller that recovers is refused once for each account and model, in whatever session; the store remembers."""
    place, secret = tmp_path / "sessions.sqlite3", "sk-ant-api03-never-to-be-stored"
    refused = []
    for number, (account, model) in enumerate(
        [(secret, MODEL), (secret, MODEL), ("another", MODEL), (secret, HAIKU), (secret, HAIKU), ("another", MODEL)]
    ):
        own = {"recovers": True, "account": account}
        scene = Scene(AnthropicRules(Thinker()), model, steps=SHORT_STEPS, settings=own)
        with open_store(str(place)) as store:
            worker = through_session(scene, store, f"s{number}")
        assert (worker.refused, scene.cuts > 0) == (0, True)
        refused.append(len(scene.rules.refusals))

    assert refused == [1, 0, 1, 1, 0, 0]
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_a_wrapped_client_is_refused_once_for_its_key(tmp_path: Path) -> None:
    """B32: clients with one key on one store learn from one refusal, also after a restart; another key learns for itself."""
    refused: list[int] = []
    place = tmp_path / "sessions.sqlite3"
    for key in ("sk-ant-one-0123456789", "sk-ant-one-0123456789", "sk-ant-two-0123456789"):
        scene = Scene(AnthropicRules(Thinker()), steps=SHORT_STEPS)
        with scene.server() as server, anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0) as plain:
            client = wrap(plain, scene.shared_settings(), store=str(place), session=f"s{len(refused)}")
            worker = Worker(scene.steps).run(lambda worker, on=client, at=scene: ask_client(on, at, worker))  # type: ignore[misc]
            client.close()
        assert worker.refused == 0
        refused.append(len(scene.rules.refusals))

    assert refused == [1, 0, 1]
    assert not any(b"0123456789" in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("streams", [False, True])
@through("gateway", also=("wrap", "async wrap"))
def test_a_request_refused_twice_is_recovered_twice(way: Way, streams: bool) -> None:
    """B7, B32: one refused for its size, and then for the thinking behind the fold, reaches its client answered."""
    rules = AnthropicRules(Thinker(most_calls=1), binds=True)
    scene = Scene(rules, UNKNOWN, streams=streams, steps=40, window_tokens=12_000)
    worker = way(scene)

    assert worker.refused == 0
    assert len(rules.refusals) == 1
    rejections = (event for event in scene.events if isinstance(event, Rejected))
    assert {event.outdated_thinking > 0 for event in rejections} == {True, False}


@pytest.mark.long
@pytest.mark.parametrize("model", [MODEL, UNKNOWN])
@through()
def test_a_stricter_provider_is_met_without_the_client(way: Way, model: str) -> None:
    """B32: where the thinking of work under way may not be missing either, that work is folded; the client sees no refusal."""
    thinker = Thinker()
    scene = Scene(AnthropicRules(thinker, binds=True, is_strict=True), model, streams=True)
    worker = way(scene)

    assert worker.refused == 0
    assert thinker.replies == STEPS + 1
    assert scene.folds > len(scene.rules.refusals) / 2 > 0
