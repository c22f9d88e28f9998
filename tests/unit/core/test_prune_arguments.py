"""Which old call arguments become stubs."""

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from infold.core.entries import Handle, Pin, Pruning
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, ReasoningPart, ToolCallPart, calls_of
from infold.core.policy import INFOLD, PrunePolicy, preset, tokens
from infold.core.prune import PrunePlan, plan_prune
from infold.core.view import view
from infold.testing.builders import calls, replies, result, session, tokens_of_text, user

EAGER = PrunePolicy(keep=tokens(0), minimum=tokens(0), arguments=True)
LARGE = msgspec.json.encode({"path": "notes.md", "content": "line of text\n" * 400}).decode()
TWO_TURNS = (user("second"), replies(), user("third"))


def planned(log: Log, policy: PrunePolicy = EAGER) -> PrunePlan:
    """The plan by a policy that keeps nothing and thinks nothing too small."""
    return plan_prune(log, policy, usable_tokens=100_000)


def written(*between: Message, arguments: str = LARGE, tool: str = "write") -> Log:
    """A turn that wrote a file by a large call, behind two turns."""
    return session(user(), calls(tool, arguments=arguments), result(output="ok", status="error"), *between, *TWO_TURNS)


def with_seal(draft: AssistantMessage, *, on: type[ToolCallPart] | type[ReasoningPart]) -> AssistantMessage:
    """A reply whose reasoning or whose calls carry a provider's seal."""
    if on is ReasoningPart:
        return replace(draft, parts=(ReasoningPart("hm", provider_data='"sealed"'), *draft.parts))
    sealed = (replace(part, provider_data='"sealed"') for part in draft.parts if isinstance(part, ToolCallPart))
    return replace(draft, parts=tuple(sealed))


def arguments_shown(log: Log) -> Mapping[str, str]:
    """The arguments of the first call in the view."""
    (call,) = calls_of(view(log, INFOLD.summary)[1])
    decoded: Mapping[str, str] = msgspec.json.decode(call.arguments)
    return decoded


def test_large_arguments_of_old_calls_go() -> None:
    """B24: a call with a large value is chosen like a result; its size is that of the call."""
    log = written()

    freed = log.live[1].measures[0]

    assert planned(log) == PrunePlan((Handle("1.0"),), freed, freed // 6)


def test_a_pruned_call_stays_valid() -> None:
    """B24: the call keeps its shape and its short values; only the large value becomes a stub."""
    log = written()
    shown = arguments_shown(log.append(Pruning(planned(log).targets, 1)))

    assert list(shown) == ["path", "content"]
    assert shown["path"] == "notes.md"
    assert shown["content"].startswith("[pruned: 5,200 characters")


@pytest.mark.parametrize("between", ["", " ", "\n  "])
def test_a_pruned_call_keeps_its_writing(between: str) -> None:
    """B24: blanks, escapes and numbers stay as the model wrote them, in what is nested too; keys are never touched."""
    long = r"line \"of\" text\n" * 100
    names = (r'"pa\u0074h"', r'"a\/b"', '"n"', "1.50", '"edits"', '[{"new"', f'"{long}"}}]}}')
    path, value, number, half, edits, new, content = names
    pairs = f"{path}:{between}{value},{between}{number}:{between}{half},{between}{edits}:{between}{new}:{between}"
    whole = f"{{{between}{pairs}{content}"
    log = written(arguments=whole)
    (call,) = calls_of(view(log.append(Pruning(planned(log).targets, 1)), INFOLD.summary)[1])

    assert call.arguments == whole.replace(long, "[pruned: 1,500 characters]")


def test_a_long_key_stays() -> None:
    """B24: only values become stubs."""
    whole = msgspec.json.encode({"k" * 500: "v" * 500}).decode()
    log = written(arguments=whole)
    (call,) = calls_of(view(log.append(Pruning(planned(log).targets, 1)), INFOLD.summary)[1])

    assert call.arguments == whole.replace("v" * 500, "[pruned: 500 characters]")


@pytest.mark.parametrize("name", ["opencode-1.1.23", "opencode-1.1.57", "proactive"])
def test_documents_do_not_prune_arguments(name: str) -> None:
    """S1.0, B24: argument pruning is off in a document preset."""
    policy = replace(preset(name).prune, keep=tokens(0), minimum=tokens(0))

    assert planned(written(), policy).targets == ()


def test_small_arguments_stay() -> None:
    """B24: names, paths and flags are not worth a stub."""
    assert planned(written(arguments='{"path": "notes.md"}')).targets == ()


def test_arguments_of_the_last_two_turns_stay() -> None:
    """B24, S2.2: only finished turns are touched."""
    assert planned(session(user(), calls("write", arguments=LARGE), result(output="ok"), user())).targets == ()


def test_arguments_of_protected_tools_stay() -> None:
    """B24, S2.4: the protected set holds for arguments too."""
    assert planned(written(tool="skill")).targets == ()


def test_pinned_arguments_stay() -> None:
    """B20, B24: a pinned call is passed over."""
    assert planned(written().append(Pin(Handle("1.0")))).targets == ()


@pytest.mark.parametrize("kind", [ToolCallPart, ReasoningPart])
def test_sealed_calls_stay(kind: type[ToolCallPart] | type[ReasoningPart]) -> None:
    """B12, B24: a call bound to signed or encrypted reasoning, or signed itself, is never changed."""
    sealed = with_seal(calls("write", arguments=LARGE), on=kind)

    assert planned(session(user(), sealed, result(output="ok", status="error"), *TWO_TURNS)).targets == ()


def test_calls_of_a_loop_that_signed_reasoning_opened_stay() -> None:
    """B12, B24: a later call of a sealed loop is bound to it although it has no seal of its own."""
    opened = with_seal(calls("look"), on=ReasoningPart)
    log = session(
        user(),
        opened,
        result(5, status="error"),
        calls("write", arguments=LARGE),
        result(5, status="error"),
        *TWO_TURNS,
    )

    assert planned(log).targets == ()


def test_results_of_a_sealed_loop_go_all_the_same() -> None:
    """B12, B24: results are not signed, so pruning them leaves the seal valid."""
    log = session(user(), with_seal(calls("look"), on=ReasoningPart), result(9_000), *TWO_TURNS)

    assert planned(log).targets == (Handle("2.0"),)


def test_results_and_arguments_share_what_is_kept() -> None:
    """B24, S2.6: both are walked as one, newest first."""
    log = session(user(), calls("write", arguments=LARGE), result(output=tokens_of_text(500)), *TWO_TURNS)

    assert planned(log).targets == (Handle("2.0"), Handle("1.0"))
    kept = log.live[2].measures[0]
    assert planned(log, replace(EAGER, keep=tokens(kept))).targets == (Handle("1.0"),)
