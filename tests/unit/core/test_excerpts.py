"""Which lines of a result stay in its stub."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import apply_step
from infold.core.entries import (
    Clip,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pin,
    Pruning,
    decode_entry,
    encode_entry,
)
from infold.core.gauge import PlanInputs
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import LONGEST_EXCERPT, is_prunable, is_result_stub, lines_of_stub
from infold.core.messages import SessionId, ToolResultPart, results_of
from infold.core.plan import Prune
from infold.core.policy import INFOLD, Policy, preset
from infold.core.prune import MOST_SEARCHED, PrunePlan, excerpts_of
from infold.testing.builders import calls, log_of, numbered, replies, result, session, user

FILLER = "the quick brown fox jumps over the lazy dog\n" * 60
TARGET = Handle("2.0")


def found(output: str, *later: str, request: str = "go on", kept_tokens: int = 500) -> str:
    """The lines kept of a result, after calls with these arguments and this request."""
    after = (message for words in later for message in (calls("bash", arguments=words), result(9)))
    log = session(user("start"), calls("bash"), result(output=output), *after, user(request))
    return excerpts_of(log, PrunePlan((TARGET,), 9, kept_tokens)).get(TARGET, "")


def test_lines_that_later_calls_used_stay() -> None:
    """A stub keeps the line that shares a rare word with a later call, wherever it stands in the result."""
    output = f"{FILLER}the harbour listens on its usual port\n{FILLER}"

    assert found(output, '{"command": "ping harbour"}') == "the harbour listens on its usual port"


def test_lines_that_the_request_names_stay() -> None:
    """A stub keeps the line that shares a rare word with the newest request, in any script."""
    output = f"{FILLER}repository lives under the old pier\n{FILLER}部署密钥在港口\n{FILLER}"

    assert "old pier" in found(output, request="Where is the repository?")
    assert "部署密钥在港口" in found(output, request="部署密钥是什么？")


def test_names_and_figures_stay() -> None:
    """A line with a name, a path or a number that was not used yet is kept before plain words."""
    assert found(f"{FILLER}set retry_limit in src/feed.py\n{FILLER}") == "set retry_limit in src/feed.py"


def test_the_outcome_stays() -> None:
    """The first and the last line are kept before others if they tell how a command ended."""
    names = "".join(f"name_{number} in lib/part_{number}.py\n" for number in range(99))

    assert found(f"{names}12 passed, 3 failed").endswith("12 passed, 3 failed")
    assert found(f"exit code 2\n{names}").startswith("exit code 2")
    assert found(f"{names * 200}12 passed").endswith("12 passed")
    assert len(names * 200) > MOST_SEARCHED


def test_plain_text_keeps_nothing() -> None:
    """A result without anything to tell its lines apart by has a stub without lines, and so has a short one."""
    assert found(FILLER) == ""
    assert found("name_1 is 4711 in lib/part.py") == ""


def test_the_room_is_kept() -> None:
    """The newest results have the room; a result whose lines do not fit keeps none."""
    output = f"{FILLER}set retry_limit in src/feed.py\n{FILLER}"

    assert found(output, kept_tokens=3) == ""
    assert found(output, kept_tokens=0) == ""
    log = session(user(), *(calls("a"), result(output=output)) * 2, user(), user())
    both = PrunePlan((Handle("4.0"), Handle("2.0")), 9, 12)
    assert list(excerpts_of(log, both)) == [Handle("4.0")]
    assert len(excerpts_of(log, replace(both, kept_tokens=99))) == 2


def test_only_results_have_lines() -> None:
    """Pruned arguments keep no lines, and a session without a person's request is searched by its calls alone."""
    log = session(calls("write", arguments='{"text": "' + "retry_limit 4711 " * 99 + '"}'), result(9))

    assert excerpts_of(log, PrunePlan((Handle("0.0"),), 9, 500)) == {}


def shown(log: Log) -> list[str]:
    """The outputs as the view shows them."""
    return [part.output for logged in log.live for part in results_of(log.shown(logged))]


def pruned(policy: Policy) -> tuple[Log, list[Entry]]:
    """A log with one result pruned, and its entries."""
    output = f"{FILLER}the harbour listens on port 4711\n{FILLER}"
    messages = numbered((user("start"), calls("bash"), result(output=output), replies("done"), user("harbour?")))
    log = log_of(messages, policy=policy)
    inputs = PlanInputs(policy, budget_for(Window(16_000), policy))
    kept = 0 if policy.stub else 100
    applied = apply_step(log, Prune(PrunePlan((TARGET,), 900, kept), "trigger"), inputs)
    return applied.log, [*map(MessageEntry, messages), *applied.entries]


def test_a_stub_never_changes() -> None:
    """B29: the lines are chosen once and stored, so that later words and another process show the same stub."""
    log, entries = pruned(INFOLD)
    stub = shown(log)[0]

    assert stub.endswith("output, except these lines]\nthe harbour listens on port 4711")
    later = log.append(MessageEntry(numbered((*[user()] * 5, user("fox and dog")))[-1]))
    assert shown(later)[0] == stub
    stored = [decode_entry(encode_entry(entry)) for entry in entries]
    read = load(SessionId("s"), reversed(list(enumerate(stored))), log.rendering)
    assert shown(read)[0] == stub


def test_a_stub_with_lines_is_not_pruned_again() -> None:
    """B43: a stub that a caller brings back is known by its first line; longer text behind it is a result."""
    log, _ = pruned(INFOLD)
    stub = shown(log)[0]

    assert is_result_stub(stub)
    assert lines_of_stub(stub) == "the harbour listens on port 4711"
    assert not is_prunable(ToolResultPart("c", "bash", stub))
    assert is_prunable(ToolResultPart("c", "bash", f"{stub}\n{FILLER}"))
    assert not is_result_stub("[pruned: 9 characters of bash output]\nand more")
    assert lines_of_stub("and more") == ""


def test_a_pinned_result_is_shown_again() -> None:
    """B20: what is pinned is never hidden, also if it was pruned before; undoing that pruning then changes nothing of it."""
    log, _ = pruned(INFOLD)
    again = log.append(Pin(TARGET))

    assert shown(again)[0].startswith(FILLER)
    assert again.size == log_of([logged.message for logged in log.live]).size
    assert again.append(Pin(TARGET, pinned=False)).size == again.size
    both = log.append(Pruning((Handle("1.0"),), 0))
    assert set(both.append(Pin(TARGET)).altered) == {1}


def test_what_is_clipped_stays_clipped_where_it_is_pinned() -> None:
    """B8: a part that was shortened because it does not fit is not shown whole because it is pinned."""
    log, _ = pruned(INFOLD)
    clipped = log.append(Clipping((Clip(TARGET, 200, 100),)))

    assert "characters" in shown(clipped.append(Pin(TARGET)))[0]
    assert len(shown(clipped.append(Pin(TARGET)))[0]) < 500


def test_a_document_s_stub_has_no_lines() -> None:
    """S2.5: a preset with a stub of its own keeps exactly that."""
    for name in ("opencode-1.1.23", "opencode-1.1.57", "proactive"):
        log, entries = pruned(preset(name))
        assert shown(log)[0] == preset(name).stub
        assert isinstance(entries[-1], Pruning)
        assert not entries[-1].excerpts


@given(st.lists(st.text(max_size=200), max_size=30), st.text(max_size=200), st.integers(0, 500))
def test_an_excerpt_is_part_of_its_result(lines: list[str], words: str, kept_tokens: int) -> None:
    """Whatever a tool returned, its stub keeps only lines of it, in their order, within their room."""
    output = "\n".join((*lines, "x" * 400))
    kept = found(output, words, kept_tokens=kept_tokens)
    rest = iter([line.strip() for line in output.splitlines()])

    assert all(any(one.startswith(line) for one in rest) for line in kept.splitlines())
    assert len(kept) <= min(LONGEST_EXCERPT, len(output) // 6)
