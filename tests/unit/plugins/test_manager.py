"""Plugins are asked in order, and none of them can do harm."""

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint
from infold.core.events import Event, PluginFailed
from infold.core.messages import SessionId
from infold.core.summary_request import Additions, instruction
from infold.plugins.hooks import HOOK_NAMES, hook
from infold.plugins.runner import (
    LONGEST_PROBLEM,
    LONGEST_SUMMARY,
    LONGEST_TEXT,
    MOST_CONTEXTS,
    SHORTENED,
    Plugin,
    PluginHooks,
)
from infold.ports import CompactionContext, Decision, Hooks, KeepFrom, Supply, Veto

ID = SessionId("s")
OCCASION = CompactionContext(ID, "trigger", (), 4, 90_000, 1_000_000)


class Saying:
    """A plugin that answers one hook with whatever it was made with."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    @hook("session.compacting")
    def compacting(self) -> Any:
        """Say it."""
        return self._answer

    @hook("compaction.before")
    def before(self) -> Any:
        """Say it."""
        return self._answer

    @hook("compaction.continue")
    def may_continue(self) -> Any:
        """Say it."""
        return self._answer


class Raising:
    """A plugin that raises whatever it was made with, at every hook."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    @hook("session.compacting")
    def compacting(self) -> Additions:
        """Raise."""
        raise self._error

    @hook("compaction.before")
    def before(self) -> Decision:
        """Raise."""
        raise self._error

    @hook("compaction.after")
    def after(self) -> None:
        """Raise."""
        raise self._error

    @hook("compaction.continue")
    def may_continue(self) -> bool:
        """Raise."""
        raise self._error


class Listening:
    """A plugin that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    @hook("before_compaction")
    def before_compaction(self, occasion: CompactionContext) -> None:
        """Remember the occasion."""
        self.heard.append(occasion)

    @hook("after_compaction")
    def after_compaction(self, session_id: SessionId, checkpoint: Checkpoint) -> str:
        """Remember the checkpoint, and say something that nobody asked for."""
        self.heard.append((session_id, checkpoint))
        return "done"


def asked(*plugins: object) -> "tuple[PluginHooks, list[Event]]":
    """Plugins to be asked, and what will be told of them."""
    told: list[Event] = []
    return PluginHooks(plugins, told.append), told


def failures(told: list[Event]) -> list[PluginFailed]:
    """What was told, all of it failures."""
    assert all(isinstance(event, PluginFailed) for event in told)
    return [event for event in told if isinstance(event, PluginFailed)]


# What is asked for.


def test_contexts_follow_one_another() -> None:
    """S3.5: plugins append contexts in the order they were given; one that says nothing, or a blank, adds nothing."""
    hooks, told = asked(
        Saying(Additions(contexts=("one", "two"))),
        Saying(None),
        Saying(Additions(contexts=(" \n",))),
        Saying(Additions(contexts=("three",))),
    )

    assert hooks.additions(OCCASION) == Additions(contexts=("one", "two", "three"))
    assert told == []


def test_the_first_replacement_replaces_everything() -> None:
    """S3.5: a replacement prompt replaces the prompt and all contexts, also those of plugins before it."""
    hooks, _ = asked(
        Saying(Additions(contexts=("one",))),
        Saying(Additions(contexts=("two",), replacement="Only list files.")),
        Saying(Additions(replacement="Only list commands.")),
    )
    given = hooks.additions(OCCASION)

    assert given == Additions(replacement="Only list files.")
    assert instruction(given) == "Only list files."


def test_a_plugin_changes_nothing_else() -> None:
    """S3.5: a person's focus and the older notes are not a plugin's to set."""
    hooks, _ = asked(Saying(Additions(contexts=("one",), focus="me", earlier="never happened")))

    assert hooks.additions(OCCASION) == Additions(contexts=("one",))


def test_several_functions_of_one_plugin_are_asked() -> None:
    """A plugin may answer one hook in several functions; they are asked in the order of their names."""

    class Double:
        @hook("session.compacting")
        def a(self) -> Additions:
            """First."""
            return Additions(contexts=("a",))

        @hook("experimental.session.compacting")
        def b(self) -> Additions:
            """Second."""
            return Additions(contexts=("b",))

    assert asked(Double)[0].additions(OCCASION).contexts == ("a", "b")


@pytest.mark.parametrize("decision", [Veto("tests are running"), Supply("All done."), KeepFrom(3)])
def test_the_first_decision_counts(decision: Decision) -> None:
    """B20: a plugin may veto, supply the summary or choose the cut; those after it are not asked."""
    later = Listening()
    hooks, told = asked(Saying(None), Saying(decision), later)

    assert hooks.decide(OCCASION) == decision
    assert later.heard == []
    assert told == []


def test_nothing_said_is_no_decision() -> None:
    """Plugins that say nothing, and the absence of plugins, let a compaction go on."""
    assert asked(Saying(None))[0].decide(OCCASION) is None
    hooks: Hooks = asked()[0]
    assert hooks.decide(OCCASION) is None
    assert hooks.additions(OCCASION) == Additions()
    assert hooks.may_continue(ID) is True


def test_plugins_hear_the_whole_of_it() -> None:
    """A plugin is told what is to be folded before, and gets the checkpoint after."""
    listening = Listening()
    hooks, told = asked(listening)
    hooks.decide(OCCASION)
    hooks.compacted(ID, Checkpoint("folded"))

    assert listening.heard == [OCCASION, (ID, Checkpoint("folded"))]
    assert told == []


@pytest.mark.parametrize(
    ("answers", "goes_on"), [((), True), ((None, True), True), ((True, False, True), False), ((False,), False)]
)
def test_one_veto_keeps_a_session_waiting(answers: tuple[bool | None, ...], goes_on: bool) -> None:
    """B21: any plugin that says false keeps the model from being asked to go on."""
    assert asked(*map(Saying, answers))[0].may_continue(ID) is goes_on


# What goes wrong.

CALLS: dict[str, Callable[[PluginHooks], object]] = {
    "session_compacting": lambda hooks: hooks.additions(OCCASION),
    "before_compaction": lambda hooks: hooks.decide(OCCASION),
    "after_compaction": lambda hooks: hooks.compacted(ID, Checkpoint("folded")),
    "may_continue": lambda hooks: hooks.may_continue(ID),
}


def test_every_hook_is_tried() -> None:
    """The calls below are all the hooks there are."""
    assert set(CALLS) == set(HOOK_NAMES.values())


@pytest.mark.parametrize("name", CALLS)
def test_a_plugin_that_raises_is_passed_over(name: str) -> None:
    """A failing plugin is told of by name and hook, and the others are asked as if it were not there."""
    sound = (Saying(Additions(contexts=("one",))),) if name == "session_compacting" else (Listening(),)
    hooks, told = asked(Raising(ValueError("no\nsuch thing")), *sound)
    alone, _ = asked(*sound)

    assert CALLS[name](hooks) == CALLS[name](alone)
    assert told == [PluginFailed("s", "Raising", f"{name}: ValueError: no such thing")]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_passes_through(name: str, error: type[BaseException]) -> None:
    """What is not an error of the plugin ends the call, as it would anywhere."""
    hooks, told = asked(Raising(error()))

    with pytest.raises(error):
        CALLS[name](hooks)
    assert told == []


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("session_compacting", "more"),
        ("session_compacting", Additions(contexts="more")),  # type: ignore[arg-type] # as an untyped plugin would
        ("session_compacting", Additions(contexts=(1,))),  # type: ignore[arg-type] # as an untyped plugin would
        ("session_compacting", Additions(replacement=b"x")),  # type: ignore[arg-type] # as an untyped plugin would
        ("before_compaction", "no"),
        ("before_compaction", Veto(1)),  # type: ignore[arg-type] # as an untyped plugin would
        ("before_compaction", KeepFrom(True)),
        ("before_compaction", KeepFrom(-1)),
        ("before_compaction", Supply("x" * (LONGEST_SUMMARY + 1))),
        ("may_continue", 0),
    ],
)
def test_a_wrong_answer_is_passed_over(name: str, answer: object) -> None:
    """An answer that is not of the kind asked for counts as none, and is told of."""
    hooks, told = asked(Saying(answer))
    (alone, _) = asked()

    assert CALLS[name](hooks) == CALLS[name](alone)
    assert [failed.problem.split(":")[0] for failed in failures(told)] == [name]


def test_a_problem_is_told_in_a_line() -> None:
    """What a plugin raised is told within a bound, however much it said."""
    hooks, told = asked(Raising(ValueError("x\n" * 100_000)))
    hooks.additions(OCCASION)
    (failed,) = failures(told)

    assert len(failed.problem) == LONGEST_PROBLEM
    assert failed.problem.endswith(SHORTENED)
    assert "\n" not in failed.problem


# Text is bounded.


def test_each_text_is_bounded() -> None:
    """S3.5: a context, a replacement and a veto's reason are shortened to their longest, visibly."""
    long = "x" * (LONGEST_TEXT + 1)
    (context,) = asked(Saying(Additions(contexts=(long,))))[0].additions(OCCASION).contexts
    replacement = asked(Saying(Additions(replacement=long)))[0].additions(OCCASION).replacement
    veto = asked(Saying(Veto(long)))[0].decide(OCCASION)

    assert context == replacement == "x" * (LONGEST_TEXT - len(SHORTENED)) + SHORTENED
    assert isinstance(veto, Veto)
    assert len(veto.why) == LONGEST_PROBLEM


def test_texts_are_bounded_together() -> None:
    """S3.5: there is a most of contexts, and in a small window they leave most of it to what is to be summarised."""
    many, _ = asked(Saying(Additions(contexts=("text",) * 100)))
    large, _ = asked(Saying(Additions(contexts=("x" * 700,) * 9)))
    small = large.additions(replace(OCCASION, usable_tokens=3_000)).contexts

    assert len(many.additions(OCCASION).contexts) == MOST_CONTEXTS
    assert [len(text) for text in small] == [700, 700, 100]
    assert large.additions(replace(OCCASION, usable_tokens=2_802)).contexts == ("x" * 700, "x" * 700)
    assert large.additions(replace(OCCASION, usable_tokens=0)).contexts == ("x" * 700,) * 9


def test_text_can_be_sent() -> None:
    """S3.5: control characters and halves of surrogate pairs, which providers refuse, are left out."""
    hooks, _ = asked(Saying(Additions(contexts=("a\x00b\ud800c\r\n\t日本 \u200d",))))

    assert hooks.additions(OCCASION).contexts == ("abc\n\t日本 \u200d",)
    assert asked(Saying(Supply("a\x00b")))[0].decide(OCCASION) == Supply("ab")


# Loading.


def test_a_plugin_is_loaded_when_it_is_first_asked() -> None:
    """S8.4: nothing is loaded until a compaction asks, and then once."""
    loads: list[str] = []

    def load() -> object:
        loads.append("now")
        return Saying(Veto("no"))

    hooks, _ = asked(Plugin("late", load))
    before = list(loads)
    hooks.decide(OCCASION)
    hooks.decide(OCCASION)

    assert (before, loads) == ([], ["now"])


class Unmarked:
    """No plugin: nothing of it is a hook."""


class Curious:
    """A plugin that wants to know what no hook is told."""

    @hook("compaction.continue")
    def may_continue(self, password: str) -> None:
        """Never asked."""


def failing() -> object:
    """Load something that cannot be loaded."""
    raise ModuleNotFoundError("No module named 'gone'")


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (Plugin("broken", failing), "No module named 'gone'"),
        (Plugin("nothing", lambda: None), "no function is marked as a hook"),
        (Unmarked(), "no function is marked as a hook"),
        (Curious(), "may_continue takes password; may_continue offers session_id"),
        (Saying, "__init__"),
    ],
)
def test_a_broken_plugin_is_told_of_once(plugin: object, problem: str) -> None:
    """S8.4: a plugin that cannot be loaded or has no hook that could be asked is told of, not raised, and not tried again."""
    hooks, told = asked(plugin, Saying(Veto("sound")))

    assert [hooks.decide(OCCASION), hooks.decide(OCCASION)] == [Veto("sound")] * 2
    (failed,) = failures(told)
    assert failed.problem.startswith("loading: ")
    assert problem in failed.problem


def test_an_interrupted_load_is_repeated() -> None:
    """An interruption while plugins are loaded passes through, and none of them is lost by it."""
    loads: list[str] = []

    def load() -> object:
        loads.append("now")
        if len(loads) == 1:
            raise KeyboardInterrupt
        return Saying(Veto("sound"))

    hooks, _ = asked(Plugin("late", load))
    with pytest.raises(KeyboardInterrupt):
        hooks.decide(OCCASION)

    assert hooks.decide(OCCASION) == Veto("sound")


def test_threads_load_once() -> None:
    """Two sessions that compact at the same moment load each plugin once, and both hear it."""
    loads: list[str] = []
    together = Barrier(8)
    decided: list[Decision | None] = []

    def load() -> object:
        loads.append("now")
        return Saying(Veto("sound"))

    hooks, _ = asked(Plugin("late", load))

    def decide() -> None:
        together.wait()
        decided.append(hooks.decide(OCCASION))

    threads = [Thread(target=decide) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert loads == ["now"]
    assert decided == [Veto("sound")] * 8


def test_a_failure_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    """A plugin's author finds out where it failed though nobody listens to events; what it said of a session is in no log."""
    hooks, _ = asked(Raising(ValueError("the user's secret")), 5)

    hooks.decide(OCCASION)

    loading, deciding = (record.getMessage() for record in caplog.records)
    assert loading.startswith("the plugin int failed in loading with UsageError at ")
    assert loading.endswith(": no function is marked as a hook; use @hook(name)")
    assert deciding.startswith(f"the plugin Raising failed in before_compaction with ValueError at {__file__}:")
    assert "secret" not in caplog.text
