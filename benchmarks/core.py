"""What the core costs: import, overflow, prune, plan, view and append, at a hundred to a hundred thousand messages.

Run `python benchmarks/core.py` (`--write` keeps the figures in `benchmarks/results/`). Times are CPU time of this process, the
best of several runs; what counts are the ratios, since machines differ. Not measured here: estimator error
(`estimate_error.py`), cost and retention on real transcripts (replay, later).
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path
from typing import TypeAlias

from infold.core.budget import Budget, Window, budget_for, is_overflow
from infold.core.compact import compact
from infold.core.entries import Checkpoint, MessageEntry
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.messages import Message
from infold.core.plan import next_step
from infold.core.policy import INFOLD, Policy, preset
from infold.core.prune import plan_prune
from infold.core.view import view
from infold.testing.builders import calls, log_of, numbered, replies, result, user

Figures: TypeAlias = dict[str, list[dict[str, float]]]

RESULTS = Path(__file__).parent / "results"
SIZES = (100, 1_000, 10_000, 100_000)
WIDE = PlanInputs(INFOLD, budget_for(Window(20_000_000), INFOLD))
NARROW = Window(64_000)


def main() -> int:
    """Measure, print, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description="What the core costs.")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    chosen = parser.parse_args()
    figures: Figures = {
        "import": [import_cost()],
        "sizes": sizes(),
        "plan": [plan_cost()],
        "folded": [folded_cost()],
    }
    print(table(figures))
    if chosen.write:
        keep(figures)
    return 0


def import_cost() -> dict[str, float]:
    """CPU milliseconds of `import infold` over bare Python, and the distributions it needs."""
    bare = best_of(5, lambda: cpu_of("pass"))
    loaded = best_of(5, lambda: cpu_of("import infold, infold.core.compact"))
    needed = [line for line in requires("infold") or [] if "extra ==" not in line]
    return {"cpu_ms": round((loaded - bare) * 1e3, 1), "distributions": 1 + len(needed)}


def cpu_of(code: str) -> float:
    """CPU seconds of a fresh interpreter that runs a line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def sizes() -> list[dict[str, float]]:
    """Microseconds of each operation on logs of growing length, nothing folded."""
    policy = preset("opencode-1.1.23")
    budget = budget_for(Window(200_000, output_tokens=32_000), policy)
    return [size_row(size, policy, budget) for size in SIZES]


def size_row(size: int, policy: Policy, budget: Budget) -> dict[str, float]:
    """The operations on a log of one length."""
    log = long_log(size)
    return {
        "messages": size,
        "overflow_us": per_call(lambda: is_overflow(150_000, budget, policy)),
        "step_us": per_call(lambda: next_step(log, WIDE)),
        "prune_us": per_call(lambda: plan_prune(log, policy.prune, usable_tokens=168_000)),
        "view_us": per_call(lambda: view(log, INFOLD.summary)),
        "append_us": append_cost(log),
    }


def plan_cost() -> dict[str, float]:
    """Microseconds to plan a compaction of a 2,000-message view that is over its trigger."""
    log = long_log(2_000)
    budget = Budget(usable_tokens=20_000, limit_tokens=40_000, trigger_tokens=17_000, target_tokens=9_000)
    inputs = PlanInputs(INFOLD, budget)
    assert type(next_step(log, inputs)).__name__ == "Fold"
    return {
        "plan_2000_us": per_call(lambda: next_step(log, inputs)),
        "fold_2000_us": per_call(lambda: compact(log, inputs)),
    }


def folded_cost() -> dict[str, float]:
    """A step of a session with many folded messages against one with few: append, plan, view."""
    few, many = (folded_log(size) for size in (1_000, 100_000))
    inputs = PlanInputs(INFOLD, budget_for(NARROW, INFOLD))
    costs = (
        per_call(lambda: one_step(few, inputs), least=0.3),
        per_call(lambda: one_step(many, inputs), least=0.3),
    )
    return {"step_1k_us": costs[0], "step_100k_us": costs[1], "ratio": round(costs[1] / costs[0], 3)}


def one_step(log: Log, inputs: PlanInputs) -> int:
    """What a request costs: three entries appended, the next step decided, the view made."""
    for message in STEP:
        log = log.append(MessageEntry(message))
    next_step(log, inputs)
    return len(view(log, inputs.policy.summary))


STEP = numbered((user("go on"), calls("bash"), result(50)), prefix="new")


def history(size: int) -> tuple[Message, ...]:
    """Messages of an ordinary shape: a request, tool steps, a reply, over and over."""
    turn = (user("do the next part"), calls("bash"), result(40), calls("read"), result(40), replies("part done"))
    drafts = [turn[number % len(turn)] for number in range(size)]
    return numbered(drafts)


def long_log(size: int) -> Log:
    """A log of that many messages, nothing folded."""
    return log_of(history(size))


def folded_log(size: int) -> Log:
    """A log whose checkpoint folded all but the last twelve messages."""
    log = long_log(size - size % 6)
    return log.append(Checkpoint("what went before", first_kept=log.live[-12].sequence))


def append_cost(log: Log) -> float:
    """Microseconds to append one message, on the newest log of its line."""
    drafts = numbered((user("one more") for _ in range(500)), prefix="more")
    started = time.process_time()
    for message in drafts:
        log = log.append(MessageEntry(message))
    return round((time.process_time() - started) / len(drafts) * 1e6, 2)


def per_call(action: Callable[[], object], *, least: float = 0.1) -> float:
    """Microseconds of one call, best of three, each over at least that many seconds of CPU."""
    return round(best_of(3, lambda: timed(action, least)) * 1e6, 2)


def timed(action: Callable[[], object], least: float) -> float:
    """Seconds of CPU per call."""
    times, started = 0, time.process_time()
    while (spent := time.process_time() - started) < least:
        action()
        times += 1
    return spent / times


def best_of(runs: int, measure: Callable[[], float]) -> float:
    """The smallest of several measurements: what the machine can do when left alone."""
    return min(measure() for _ in range(runs))


def table(figures: Figures) -> str:
    """The figures as text, with the targets beside them."""
    imported, plan, folded = figures["import"][0], figures["plan"][0], figures["folded"][0]
    lines = [
        f"import: {imported['cpu_ms']} ms CPU over bare Python (target 100)",
        f"distributions: {imported['distributions']} (target 3)",
        "messages   overflow     step    prune      view   append   (microseconds)",
        *map(size_line, figures["sizes"]),
        f"plan over a 2,000-message view: {plan['plan_2000_us']} µs (target 1,000)",
        f"fold it: {plan['fold_2000_us']} µs",
        f"a step with 1k folded messages: {folded['step_1k_us']} µs, with 100k: {folded['step_100k_us']} µs",
        f"ratio: {folded['ratio']} (target 1.2)",
    ]
    return "\n".join(lines)


def size_line(row: dict[str, float]) -> str:
    """One row of the table by size."""
    return f"{row['messages']:>8,}" + "".join(
        f"{row[name]:>{width}}"
        for name, width in (("overflow_us", 11), ("step_us", 9), ("prune_us", 9), ("view_us", 10), ("append_us", 9))
    )


def keep(figures: Figures) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"command": "python benchmarks/core.py --write", "commit": commit, "machine": machine, **figures}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "core.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "core.txt").write_text(f"{machine}, commit {commit}\n{table(figures)}\n")


if __name__ == "__main__":
    sys.exit(main())
