"""A lead agent and two sub-agents, each with a session of its own in one store.
A sub-agent reads much and returns one sentence: the lead's window holds the sentence, the store keeps the rest."""

from offline import FILES, openai_model

from infold import Session
from infold.testing import Say

LEAD_WINDOW, SUB_WINDOW = 32_000, 8_192


def script(request):
    """What the scripted model does: summarise what it was shown last."""
    last = str(request.body["messages"][-1]["content"])
    if last.startswith("Reports"):
        return Say("Both halves define berth functions only; the port can be split between them.")
    return Say("They define berth functions and nothing else." if last.startswith("In one sentence") else "Read.")


def ask(session: Session, text: str) -> str:
    """Send one more message of a session and return the reply's text."""
    ready = session.prepare_new([{"role": "user", "content": text}])
    reply = client.chat.completions.create(model=model, messages=ready.messages)
    session.record(reply)
    return reply.choices[0].message.content


def research(name: str, paths: list[str]) -> str:
    """Have a sub-agent read these files, and return its one sentence."""
    sub = lead.child(name, window=SUB_WINDOW)
    for path in paths:
        ask(sub, f"Read {path}, reply with one word:\n{FILES[path]}")
    return ask(sub, f"In one sentence: what do {paths[0]} to {paths[-1]} define?")


with (
    openai_model(script, SUB_WINDOW) as (client, model),
    Session("memory", "port", window=LEAD_WINDOW, format="openai-chat") as lead,
):
    ask(lead, "Plan how to port src/. Have the files read by two sub-agents. Never touch vendor/.")
    halves = {"first-half": list(FILES)[:15], "second-half": list(FILES)[15:]}
    reports = [f"{name}: {research(name, half)}" for name, half in halves.items()]
    print(ask(lead, "Reports of the sub-agents:\n" + "\n".join(reports)), "\n")

    print(f"{'session':18} {'stored':>8} {'in the window':>14} {'window':>7}")
    for session in (lead, *(lead.child(name, window=SUB_WINDOW) for name in halves)):
        shown = session.prepare_new([]).messages
        print(f"{session.id:18} {len(session.messages()):8} {len(shown):14} {session.window_tokens:7,}")
    found = lead.child("second-half").recall("berth_16_42").splitlines()
    print("\nWhat the sub-agent read can be recalled:", next(line for line in found if "berth_16_42" in line))
