"""An agent loop on OpenAI's SDK: `prepare` before each request, `record` after it.
Thirty files are read in a window of 8,192 tokens; the list keeps everything, each request fits."""

import json
from itertools import count

from offline import FILES, openai_model

from infold import Session, SessionSettings, open_store
from infold.testing import Say

WINDOW = 8_192
RULE = "Never touch vendor/."
READ = {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": READ}]
paths, requests = iter(FILES), count(1)


def script(_):
    """What the scripted model does: read every file, then report."""
    path = next(paths, None)
    return (
        Say(calls=(("read_file", {"path": path}),))
        if path
        else Say("All 30 files define berths; vendor/ is untouched.")
    )


def read_file(path: str) -> str:
    return FILES.get(path, f"no such file: {path}")


with openai_model(script, WINDOW) as (client, model), open_store("memory") as store:
    session = Session(store, "berths", SessionSettings(window=WINDOW))
    prompt = f"Read every file of src/, part_00.py to part_29.py, one at a time, and say what they define. {RULE}"
    messages = [{"role": "user", "content": prompt}]
    while True:
        ready = session.prepare(messages, tools=TOOLS)
        reply = client.chat.completions.create(model=model, messages=ready.messages, tools=TOOLS)
        session.record(reply)
        number = next(requests)
        if ready.events or number % 10 == 1:
            done = ", ".join(type(event).__name__ for event in ready.events) or "as it is"
            print(f"request {number:2}: {len(messages):2} messages in the list, {len(ready.messages):2} sent ({done})")
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            result = read_file(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    print(f"\n{message.content}")
    print(f"The rule is in the last request: {RULE in str(ready.messages)}")
