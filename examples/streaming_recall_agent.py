"""A streaming agent on Anthropic's SDK that can recall: `wrap` keeps it in its window, a tool brings back what left it.
A password that a log printed early is folded away; when it is needed, the model asks for it and gets it."""

from offline import anthropic_model

from infold import Session, SessionSettings, open_store, wrap
from infold.formats.tools import recall_query, recall_tool
from infold.testing import Say

WINDOW = 8_192
folds: list = []
SETTINGS = SessionSettings(window=WINDOW, format="anthropic-messages", recall=True, on_compacted=folds.append)
TOOLS = [recall_tool("anthropic-messages")]


def script(request):
    """What the scripted model does: acknowledge logs; asked for the password, recall it, then repeat what it found."""
    last = str(request.body["messages"][-1]["content"])
    if "tool_result" in last:
        return Say(f"The test database's password is {last.partition('password=')[2][:9]}.")
    if "Which password" in last:
        return Say(calls=(("recall", {"query": "database password"}),))
    return Say("Noted.")


def log(number: int) -> str:
    lines = f"run {number}: 212 tests passed\n" * 90
    return f"connected to the test database, password=quay-4711\n{lines}" if number == 2 else lines


def ask(client, model: str, messages: list) -> None:
    """Send the whole list, print the reply as it arrives, and answer its calls of the recall tool."""
    while True:
        with client.messages.stream(model=model, max_tokens=500, messages=messages, tools=TOOLS) as stream:
            for text in stream.text_stream:
                print(text, end="", flush=True)
            reply = stream.get_final_message()
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            print()
            return
        found = [Session(store, "logs", SETTINGS).recall(recall_query(call.input)) for call in calls]
        print(f"[recall {calls[0].input['query']!r} found]\n{found[0]}\n")
        results = [
            {"type": "tool_result", "tool_use_id": c.id, "content": f} for c, f in zip(calls, found, strict=True)
        ]
        messages.append({"role": "user", "content": results})


with anthropic_model(script, WINDOW) as (bare, model), open_store("memory") as store:
    client = wrap(bare, SETTINGS, store=store, session="logs")
    messages: list = []
    for number in range(16):
        messages.append({"role": "user", "content": f"Read this log and reply with one word.\n{log(number)}"})
        ask(client, model, messages)
    print(f"\n{len(folds)} compactions so far; the log with the password left the window.\n")
    messages.append({"role": "user", "content": "Which password has the test database?"})
    ask(client, model, messages)
