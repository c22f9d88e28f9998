"""A gateway for two agents at once, one on OpenAI's SDK and one on Anthropic's: they change nothing but their base URL.
`infold serve` runs in a process of its own; each agent's session is found by its history and kept inside 8,000 tokens."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from anthropic import Anthropic
from openai import OpenAI

from infold.testing import Say, ScriptedServer

WINDOW, TURNS = 8_000, 12
REAL = bool(os.environ.get("OPENAI_API_KEY") and os.environ.get("ANTHROPIC_API_KEY"))
KEYS = [os.environ[name] if REAL else "none" for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")]


def log(agent: str, n: int) -> str:
    return f"Reply with one word. Log {n} of {agent}: " + f"{agent} compiled berth {n}\n" * 120


def openai_agent(url: str) -> str:
    messages: list = []
    with OpenAI(base_url=f"{url}/v1", api_key=KEYS[0]) as client:
        for n in range(TURNS):
            messages.append({"role": "user", "content": log("Ada", n)})
            reply = client.chat.completions.with_raw_response.create(model="gpt-5.4-mini", messages=messages)
            messages.append({"role": "assistant", "content": reply.parse().choices[0].message.content})
    return f"Ada (OpenAI): {len(messages)} messages in her list, the last request was {reply.headers['x-infold']}"


def anthropic_agent(url: str) -> str:
    messages: list = []
    with Anthropic(base_url=url, api_key=KEYS[1]) as client:
        for n in range(TURNS):
            messages.append({"role": "user", "content": log("Bo", n)})
            create = client.messages.with_raw_response.create
            reply = create(model="claude-sonnet-5-5", max_tokens=200, messages=messages)
            messages.append({"role": "assistant", "content": reply.parse().content})
    return f"Bo (Anthropic): {len(messages)} messages in his list, the last request was {reply.headers['x-infold']}"


with ScriptedServer(lambda _: Say("Noted."), window_tokens=WINDOW) as provider:
    if not REAL:
        print("A scripted provider answers; set OPENAI_API_KEY and ANTHROPIC_API_KEY to use the real ones.\n")
    places = ("https://api.openai.com", "https://api.anthropic.com") if REAL else (provider.url, provider.url)
    command = [sys.executable, "-m", "infold", "serve", "--port", "0", "--store", "memory", "--window", str(WINDOW)]
    command += ["--upstream", f"openai={places[0]}", "--upstream", f"anthropic={places[1]}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as gateway, ThreadPoolExecutor(2) as threads:
        url = next(word for line in gateway.stdout for word in line.split() if word.startswith("http://127."))
        try:
            for line in [threads.submit(agent, url) for agent in (openai_agent, anthropic_agent)]:
                print(line.result())
        finally:
            gateway.terminate()
    if not REAL:
        largest = max(request.tokens for request in provider.requests)
        print(f"largest request upstream: {largest:,} of {WINDOW:,} tokens")
