"""Models asked through the `openai` SDK: OpenAI's own, and those of any server that speaks its chat interface.

Address and key are the SDK's affair (`OPENAI_BASE_URL`, `OPENAI_API_KEY`), as are its retries.
"""

from collections.abc import Callable

import openai

from infold.catalogue import cost_of
from infold.core.judge import Told
from infold.core.summary import SummaryRequest
from infold.errors import UsageError
from infold.formats.requests import answer_of, summary_body
from infold.formats.wire import OPENAI_CHAT

__all__ = ["summariser"]


def summariser(model: str, client: openai.OpenAI | None = None) -> Callable[[SummaryRequest], Told]:
    """Summaries by the model of this name; raises `UsageError` where there is no key for it."""
    try:
        asked = client or openai.OpenAI()
    except openai.OpenAIError as error:
        raise UsageError(f"{model} cannot be asked for summaries: {error}") from error

    def summarise(request: SummaryRequest) -> Told:
        reply = asked.chat.completions.create(**summary_body(OPENAI_CHAT, {"model": model}, request))
        body = reply.model_dump(mode="json", exclude_none=True)
        usage = OPENAI_CHAT.usage(body)
        return Told(answer_of(OPENAI_CHAT, body), model, usage, cost_of(model, usage))

    return summarise
