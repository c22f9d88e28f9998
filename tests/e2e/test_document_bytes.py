"""The requests that the documents' presets make, byte by byte, where a summariser writes their summaries.

A change to a digest is a change to what a document describes, or to how a format is written; it needs its reason. These are as
they were before folds kept steps. Where no summary can be had, code writes the text, which is infold's own.
"""

import json
from hashlib import sha256

import pytest
from tests.support.agent_wire import KINDS, PROVIDERS

from infold import Session, SessionSettings, open_store
from infold.formats.codec import as_dict

DIGESTS = {
    "opencode-1.1.23": "e1f572501a3a309d6dfc47e7eede1413",
    "opencode-1.1.57": "b9062efd509d2f5abfdfea548d761b5a",
    "opencode-1.18": "01ea5847828190e49b760a3e123ef670",
    "proactive": "cb5b12d68c4c6bc8a784d293deff1e26",
    "turn-window": "ffc41ecaaecbdfccac78cf935ba8913b",
}
WORK = (
    *("says and runs", "reads", "fails", "edits", "passes", "parallel", "short", "shows", "plans", "writes"),
    *("interrupted", "recalls", "odd", "ends", "reports"),
)
FORMATS = ("openai-chat", "openai-responses", "gemini")
STEPS = 60


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(DIGESTS))
def test_requests_of_a_document_stay_what_they_are(policy: str) -> None:
    """B52: over 60 steps and four compactions in each of three formats, every request is as it was."""
    assert digest_of(policy) == DIGESTS[policy]


def digest_of(policy: str) -> str:
    """Return a digest of all requests that an agent makes under a preset."""
    digest = sha256()
    for name in FORMATS:
        provider = PROVIDERS[name](lambda number: number % 3 != 1)
        settings = SessionSettings(
            window=40_000,
            policy=policy,
            format=name,
            summariser=lambda _: "The parts were ported one by one; nothing is open.",
            now_ms=lambda: 1_700_000_000_000,
            environ={},
        )
        session, items = Session(open_store("memory"), "s", settings), [provider.user("Port it. Never touch vendor/.")]
        for number in range(STEPS):
            work = KINDS[WORK[number % len(WORK)]](number)
            body = provider.reply(number, work, items)
            items = [*items, *map(as_dict, provider.wire.reply_items(body)), *provider.results(number, work)]
            sent = [session.prepare(items).messages]
            if number % 15 == 14:
                sent += [session.compact().messages]
            digest.update(json.dumps(sent, sort_keys=True).encode())
    return digest.hexdigest()[:32]
