"""I15: earlier text is edited seldom, deeply, and to the same bytes each time, in whatever process."""

import json
import os
import subprocess
import sys
from itertools import pairwise

import pytest
from tests.support.coding_session import coding_session
from tests.support.play import play

from infold import Session, SessionSettings
from infold.core.messages import Message
from infold.core.plan import Fits
from infold.formats.registry import OPENAI_CHAT
from infold.stores.memory import MemoryStore
from infold.testing.builders import log_of
from infold.testing.script import count_tokens

from .scenes import conversation, each_preset, infold_at, opened, requests_of, written

PROGRAM = """
import hashlib, json
from infold import fit
from infold.formats.registry import OPENAI_CHAT
from tests.support.coding_session import coding_session
told = coding_session(turns=18, largest_result_tokens=1_500)
items = [item for message in told for item in OPENAI_CHAT.encode_new(message)]
fitted = fit(items, window=16_000, recall=True, exact=False)
print(len(fitted.report.events), hashlib.sha256(json.dumps(fitted.messages).encode()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize("window", [16_384, 32_768, 65_536])
def test_i15_the_prefix_breaks_seldom_and_deeply(window: int) -> None:
    """B16, B29: requests extend one another but for a few edits, each of which goes down to the low watermark."""
    inputs, history = infold_at(window), coding_session(largest_result_tokens=window // 16)
    requests = list(play(log_of(()), history, inputs))
    broken = [later for earlier, later in pairwise(requests) if not extends(earlier.request, later.request)]
    low_tokens = 1.35 * inputs.budget.target_tokens

    assert all(request.compaction.steps for request in broken)
    for request in broken:
        assert isinstance(request.compaction.final, Fits)
        assert request.compaction.final.gauge.count_tokens <= low_tokens
    assert 2 <= len(broken) <= 1 + count_tokens(history) / (inputs.budget.trigger_tokens - low_tokens)


def extends(earlier: tuple[Message, ...], later: tuple[Message, ...]) -> bool:
    """Whether a request begins with the whole of the one before."""
    return later[: len(earlier)] == earlier


@pytest.mark.slow
def test_i15_another_process_writes_the_same_bytes() -> None:
    """B29: with other hash seeds, so that nothing hangs on the order of a set, the same history gives the same request."""
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(told) == 1
    assert int(told.pop().split()[0]) >= 2


@pytest.mark.slow
@each_preset
def test_i15_a_session_reopened_at_each_step_sends_the_same_bytes(name: str) -> None:
    """B13, B29: whoever reads the session from its store before every request sends what one does who kept it in memory."""
    kept, store = opened(name, OPENAI_CHAT), MemoryStore()
    for new in requests_of(conversation(24)):
        items = written(OPENAI_CHAT, new)
        again = opened(name, OPENAI_CHAT, store=store)
        assert json.dumps(again.prepare_new(items).messages) == json.dumps(kept.prepare_new(items).messages)

    assert kept.log.checkpoint is not None


def test_i15_names_and_stubs_are_the_same_each_time() -> None:
    """B29: the ids of what infold adds, and the stubs it writes, depend on nothing but the history."""
    settings = SessionSettings(window=10_000, format="openai-chat", recall=True)
    sent = []
    for _ in range(2):
        session = Session(MemoryStore(), "s", settings)
        sent.append(session.prepare_new(written(OPENAI_CHAT, conversation(20, reply_tokens=6))).messages)

    assert "; recall 2.0]" in json.dumps(sent[0])
    assert json.dumps(sent[0]) == json.dumps(sent[1])
