"""aider chat histories in markdown: `#### ` is the user, `> ` the program, the rest the model.

The format has no calls. A block of program lines (edits applied, tests run, files added, tokens spent) is taken as
one result of the tool `aider`, so that nothing the program printed is lost; usage and model are read from it too. Each
start of the program is a session.
"""

import re
from collections.abc import Iterator
from itertools import groupby

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, MessageId, TextPart, ToolCallPart, ToolResultPart, Usage
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source, TextLine
from infold.transcripts.values import integer, model_ref, number, to_json, user_parts

START = "# aider chat started at "


MODEL = re.compile(r"^(?:Main model|Models?): (\S+)", re.MULTILINE)


RUNNING = re.compile(r"^(?:Running|Command:) (.+)$", re.MULTILINE)


BEFORE_REPLY = re.compile(r"^([\d,]+) prompt tokens, ([\d,]+) completion tokens(?:, \$([\d.]+) cost)?", re.MULTILINE)


AFTER_REPLY = re.compile(
    r"^Tokens: ([\d.,]+k?) sent(?:, [\d.,]+k? cache write)?(?:, [\d.,]+k? cache hit)?, ([\d.,]+k?) received\."
    r"(?: Cost: \$([\d.]+) message)?",
    re.MULTILINE,
)


def recognises(head: Head) -> bool:
    """Return whether the text says when aider was started."""
    return START in head.text


def read(source: Source) -> list[RecordedSession]:
    """Return one session per start of aider."""
    reader = _Reader(source.issues)
    for kind, lines in groupby(_kinds(source.text_lines()), key=lambda pair: pair[0]):
        reader.take(kind, "\n".join(line for _, line in lines))
    return [draft.session() for draft in reader.drafts if draft.messages]


def _kinds(lines: Iterator[TextLine]) -> Iterator[tuple[str, str]]:
    """Yield each line with who wrote it; the program and the user end theirs with two blanks, models seldom do."""
    fenced = False
    for _, line in lines:
        kind = _kind(line, fenced=fenced)
        fenced = (fenced != line.lstrip().startswith("```")) if kind == "model" else False
        yield kind, line.removeprefix({"program": ">", "user": "####"}.get(kind, "")).removeprefix(" ")


def _kind(line: str, *, fenced: bool) -> str:
    sure = not fenced or line.endswith("  ")
    if line.startswith(START):
        return "start"
    if line.startswith("####") and line[4:5] in ("", " ") and sure:
        return "user"
    if line.startswith(">") and line[1:2] in ("", " ") and sure:
        return "program"
    return "model"


class _Reader:
    def __init__(self, issues: Issues) -> None:
        self.drafts = [SessionDraft("aider", issues)]
        self._bill: AssistantMessage | None = None

    def take(self, kind: str, block: str) -> None:
        draft = self.drafts[-1]
        if kind == "start":
            self._start(block)
        elif kind == "user":
            draft.add_user(user_parts("\n".join(line.rstrip() for line in block.split("\n"))))
        elif kind == "program":
            self._take_program(draft, block)
        elif block.strip():
            self._take_reply(draft, block)

    def _start(self, block: str) -> None:
        at = block.removeprefix(START).split("\n")[0].strip()
        self.drafts.append(SessionDraft(f"aider {at}", self.drafts[0].issues))
        self._bill = None

    def _take_reply(self, draft: SessionDraft, block: str) -> None:
        reply = AssistantMessage(draft.new_id(), (TextPart(block.strip("\n")),), model=draft.model)
        if self._bill is not None:
            reply = replace(reply, usage=self._bill.usage, cost=self._bill.cost)
            self._bill = None
        draft.add(reply)

    def _take_program(self, draft: SessionDraft, block: str) -> None:
        output = "\n".join(line.removesuffix("  ") for line in block.split("\n"))
        found = MODEL.search(output)
        draft.model = draft.model or (model_ref(found[1]) if found else None)
        self._take_usage(draft, output)
        self._add_result(draft, output)

    def _take_usage(self, draft: SessionDraft, output: str) -> None:
        """Read the usage, which old versions print before the reply and newer ones after it."""
        before, after = BEFORE_REPLY.search(output), AFTER_REPLY.search(output)
        if before:
            self._bill = _billed(before)
        last = draft.messages[-1] if draft.messages else None
        if after and isinstance(last, AssistantMessage):
            bill = _billed(after)
            draft.messages[-1] = replace(last, usage=bill.usage, cost=bill.cost)

    def _add_result(self, draft: SessionDraft, output: str) -> None:
        run = RUNNING.search(output)
        arguments = to_json({"command": run[1]} if run else {})
        call = ToolCallPart(f"aider-{len(draft.messages) + 1}", "aider", arguments)
        last = draft.messages[-1] if draft.messages else None
        if isinstance(last, AssistantMessage):
            draft.messages[-1] = replace(last, parts=(*last.parts, call))
        else:
            draft.add(AssistantMessage(draft.new_id(), (call,), agent="aider"))
        draft.add_result(ToolResultPart(call.call_id, "aider", output))


def _billed(found: re.Match[str]) -> AssistantMessage:
    """Return usage and cost as a message without content, for the message they belong to."""
    usage = Usage(input=_tokens(found[1]), output=_tokens(found[2]))
    return AssistantMessage(MessageId("bill"), (), usage=usage, cost=_amount(found[3] or "0"))


def _tokens(written: str) -> int:
    plain = written.replace(",", "")
    return integer(_amount(plain.removesuffix("k")) * (1000 if plain.endswith("k") else 1))


def _amount(written: str) -> float:
    try:
        return number(float(written))
    except ValueError:
        return 0.0
