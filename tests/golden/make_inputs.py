"""Write the committed histories; needs infold's own generators and is not run by any test."""

import base64
import json
import lzma
from pathlib import Path
from random import Random
from typing import Any

from .inputs import INPUTS
from .internals import SYSTEM_TEXT, coding_session, decode_chat, recorded_sessions, trajectory, write_items

TRANSCRIPTS = Path(__file__).parents[1] / "data" / "transcripts"
TOOLS = json.dumps([{"name": "bash", "description": "Run a command.", "parameters": {"type": "object"}}])
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4).decode()
NOUNS = ["轮渡", "航线", "时刻表", "港口", "船票", "泊位", "潮汐", "锚地", "舱单", "码头"]
VERBS = ["检查", "合并", "加载", "解析", "存储", "调度", "更新", "取消"]


def write_inputs() -> None:
    """Write every history in all formats."""
    found: dict[str, Any] = {}
    for path in sorted(TRANSCRIPTS.iterdir()):
        for number, session in enumerate(recorded_sessions(path)):
            name = path.name if number == 0 else f"{path.name}-{number}"
            found[name] = {"system": session.system, "tools": session.tools, "items": session.items}
    work = decode_chat(trajectory(150))
    found["trajectory"] = {"system": SYSTEM_TEXT, "tools": TOOLS, "items": write_items(work)}
    work = coding_session(turns=15, largest_result_tokens=4_000)
    found["coding"] = {"system": SYSTEM_TEXT, "tools": TOOLS, "items": write_items(work)}
    work = decode_chat(_chinese())
    found["chinese"] = {"system": "你是一个编程助手。", "tools": TOOLS, "items": write_items(work)}
    found["native"] = {"system": "You count ships.", "tools": TOOLS, "items": _native()}
    INPUTS.write_bytes(lzma.compress(json.dumps(found, ensure_ascii=False).encode(), preset=9))


def _chinese() -> list[Any]:
    """Return a session of some 30,000 tokens in Chinese, with calls."""
    rng = Random(5)
    items: list[Any] = [
        {"role": "user", "content": "请把时刻表导入器移植到新的数据源。绝对不要修改 vendor/ 下的文件。"}
    ]
    for step in range(40):
        call = {"name": "bash", "arguments": json.dumps({"command": f"cat ferry/部分{step}.py"}, ensure_ascii=False)}
        calls = [{"id": f"c{step}", "type": "function", "function": call}]
        items.append({"role": "assistant", "content": _sentence(rng, 4), "tool_calls": calls})
        items.append({"role": "tool", "tool_call_id": f"c{step}", "content": _sentence(rng, rng.randint(10, 120))})
        if step % 10 == 9:
            items += [
                {"role": "assistant", "content": _sentence(rng, 6)},
                {"role": "user", "content": "好的，" + _sentence(rng, 2)},
            ]
    return items


def _sentence(rng: Random, count: int) -> str:
    return "".join(
        f"{rng.choice(VERBS)}{rng.choice(NOUNS)}{rng.randint(1, 99)}，再{rng.choice(VERBS)}{rng.choice(NOUNS)}。"
        for _ in range(count)
    )


def _native() -> dict[str, list[Any]]:
    """Return a session with what only one provider has: thinking, signatures, images, documents, cache marks, odd blocks."""
    return {
        "openai-chat": [item for step in range(60) for item in _chat_step(step)],
        "openai-responses": [item for step in range(60) for item in _responses_step(step)],
        "anthropic-messages": [item for step in range(60) for item in _anthropic_step(step)],
        "gemini": [item for step in range(60) for item in _gemini_step(step)],
    }


def _shown(step: int) -> str:
    return f"[{step}] 09:14 INFO ferry.store: route {step} is late, see src/routes/r{step}.py\n" * (6 + step % 5 * 5)


def _wish(step: int) -> str:
    return f"Look at picture {step}. Always keep the tide tables of harbour {step}." if step else "Count the ships."


def _chat_step(step: int) -> list[Any]:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    asked: Any = [{"type": "text", "text": _wish(step)}, *([image] if step % 6 == 1 else [])]
    call = {
        "id": f"c{step}",
        "type": "function",
        "function": {"name": "bash", "arguments": f'{{"command": "make {step}"}}'},
    }
    return [
        {"role": "user", "name": "ada", "content": asked},
        {"role": "assistant", "content": None, "reasoning_content": f"Let me see {step}.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{step}", "content": [{"type": "text", "text": _shown(step)}]},
        {"role": "assistant", "content": f"Harbour {step} has {step} ships.", "refusal": None, "annotations": []},
    ]


def _responses_step(step: int) -> list[Any]:
    image = {"type": "input_image", "detail": "low", "image_url": f"data:image/png;base64,{PNG}"}
    document = {"type": "input_file", "filename": "tide.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}
    asked = [
        {"type": "input_text", "text": _wish(step)},
        *([image] if step % 6 == 1 else []),
        *([document] if step == 8 else []),
    ]
    said = {"type": "output_text", "text": f"Harbour {step} has {step} ships.", "annotations": []}
    call = {"type": "function_call", "id": f"fc_{step}", "call_id": f"c{step}", "name": "bash", "status": "completed"}
    thought = {"type": "reasoning", "id": f"rs_{step}", "summary": [{"type": "summary_text", "text": "Counting."}]}
    return [
        {"type": "message", "role": "user", "content": asked},
        {**thought, "encrypted_content": "gAAAA" + "x" * 200},
        {**call, "arguments": f'{{"command": "make {step}"}}'},
        {"type": "function_call_output", "call_id": f"c{step}", "output": _shown(step)},
        *([{"type": "novel_item", "id": f"n{step}", "payload": {"a": [1, 2.50, None]}}] if step % 15 == 7 else []),
        {"type": "message", "id": f"msg_{step}", "role": "assistant", "status": "completed", "content": [said]},
    ]


def _anthropic_step(step: int) -> list[Any]:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    mark = {"cache_control": {"type": "ephemeral"}} if step % 10 == 9 else {}
    asked: list[Any] = [{"type": "text", "text": _wish(step), **mark}]
    if step == 8:
        asked.insert(
            0, {"type": "document", "title": "tide.pdf", "source": {**source, "media_type": "application/pdf"}}
        )
    shown: list[Any] = [
        {"type": "text", "text": _shown(step)},
        *([{"type": "image", "source": source}] if step % 6 == 1 else []),
    ]
    thought = {"type": "thinking", "thinking": f"Let me see {step}.", "signature": f"sig{step}" + "s" * 90}
    hidden = [{"type": "redacted_thinking", "data": "r" * 80}] if step % 7 == 3 else []
    call = {"type": "tool_use", "id": f"toolu_{step}", "name": "bash", "input": {"command": f"make {step}"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{step}", "content": shown, "is_error": step % 9 == 4}
    return [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": [thought, *hidden, {"type": "text", "text": "Running."}, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": f"Harbour {step} has {step} ships."}]},
    ]


def _gemini_step(step: int) -> list[Any]:
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    call = {"functionCall": {"name": "bash", "args": {"command": f"make {step}"}}, "thoughtSignature": "c2ln" * 20}
    return [
        {"role": "user", "parts": [{"text": _wish(step)}, *([image] if step % 6 == 1 else [])]},
        {"role": "model", "parts": [{"text": f"Let me see {step}.", "thought": True}, call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"output": _shown(step)}}}]},
        {"role": "model", "parts": [{"text": f"Harbour {step} has {step} ships."}]},
    ]
