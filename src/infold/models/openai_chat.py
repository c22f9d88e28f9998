"""Models asked through OpenAI's chat interface: OpenAI's own, those of any server that speaks it, and the embedded one."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from infold.core.judge import Told
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.formats.registry import OPENAI_CHAT
from infold.formats.tools import tool_items
from infold.models.failures import told_as_ours
from infold.models.hearing import heard, summary_asked, summary_told
from infold.models.openai_sdk import FAILURES, NO_KEY, OpenAIModel
from infold.ports import Heard, ModelRequest

EMBEDDED = ModelRef("embedded", "smollm2-135m-instruct")
"""The model that comes in a package."""

_OWN_HOSTS = ("openai.com", "azure.com")
"""Hosts that call the longest answer `max_completion_tokens`; servers that only speak alike know `max_tokens`."""


class OpenAIChat(OpenAIModel):
    """A model behind `chat/completions`."""

    format = OPENAI_CHAT.name

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Ask, and give the reply piece by piece; raises `ModelError`."""
        create = self.client.chat.completions.with_streaming_response.create
        asked = create(model=self.ref.id, messages=(), stream=True, extra_body=self._body(request))
        with told_as_ours(self.line, FAILURES), asked as response:
            yield from heard(self.line, OPENAI_CHAT, response.iter_bytes())

    def summarise(self, request: SummaryRequest) -> Iterator[str | Told]:
        """Write a summary piece by piece, and in the end tell all of it with usage and cost (S3.10)."""
        return summary_told(self.ref, OPENAI_CHAT, self.stream(summary_asked(OPENAI_CHAT, request)))

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """The request as it is sent: the SDK would walk through every message to hold it against its types."""
        system = [{"role": "system", "content": request.system}] if request.system else []
        tools = tool_items(self.format, request.tools)
        return {
            "model": self.ref.id,
            "messages": [*system, *request.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"tools": tools} if tools else {}),
            **({self._output_field(): request.output_tokens} if request.output_tokens else {}),
        }

    def _output_field(self) -> str:
        host = urlsplit(self.line.address).hostname or ""
        return "max_completion_tokens" if host.endswith(_OWN_HOSTS) else "max_tokens"


class EmbeddedChat(OpenAIChat):
    """The embedded model at the address its server told; too small to call tools, so it is offered none."""

    def __init__(self, url: str) -> None:
        super().__init__(EMBEDDED, url=f"{url}/v1", key=NO_KEY)

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Ask, and give the reply piece by piece; raises `ModelError`."""
        return super().stream(replace(request, tools=()))
