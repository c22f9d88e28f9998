"""Models asked through OpenAI's Responses interface, with nothing kept by the provider: the session is infold's."""

import re
from collections.abc import Iterator
from typing import Any

from infold.core.judge import Told
from infold.core.summary_request import SummaryRequest
from infold.formats.registry import OPENAI_RESPONSES
from infold.formats.tools import tool_items
from infold.models.failures import told_as_ours
from infold.models.hearing import heard, summary_asked, summary_told
from infold.models.openai_sdk import FAILURES, OpenAIModel
from infold.ports import Heard, ModelRequest

_PLAIN = re.compile(r"(?:ft:)?(?:chatgpt|gpt-[34]|gpt-5(?:\.\d+)?-chat)")
"""Models that do not reason, and refuse to be asked for what they reasoned. All others give it sealed, to be given back."""


class OpenAIResponses(OpenAIModel):
    """A model behind `responses`."""

    format = OPENAI_RESPONSES.name

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Ask, and give the reply piece by piece; raises `ModelError`."""
        create = self.client.responses.with_streaming_response.create
        asked = create(model=self.ref.id, stream=True, extra_body=self._body(request))
        with told_as_ours(self.line, FAILURES), asked as response:
            yield from heard(self.line, OPENAI_RESPONSES, response.iter_bytes())

    def summarise(self, request: SummaryRequest) -> Iterator[str | Told]:
        """Write a summary piece by piece, and in the end tell all of it with usage and cost (S3.10)."""
        return summary_told(self.ref, OPENAI_RESPONSES, self.stream(summary_asked(OPENAI_RESPONSES, request)))

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """The request as it is sent: the SDK would walk through every message to hold it against its types."""
        tools = tool_items(self.format, request.tools)
        return {
            "model": self.ref.id,
            "input": request.messages,
            "stream": True,
            "store": False,
            **({"instructions": request.system} if request.system else {}),
            **({} if _PLAIN.match(self.ref.id) else {"include": ["reasoning.encrypted_content"]}),
            **({"tools": tools} if tools else {}),
            **({"max_output_tokens": request.output_tokens} if request.output_tokens else {}),
        }
