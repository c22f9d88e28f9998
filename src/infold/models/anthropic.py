"""Models asked through the `anthropic` SDK. Address and key are the SDK's affair (`ANTHROPIC_API_KEY`), as are its retries."""

from collections.abc import Callable

import anthropic

from infold.catalogue import cost_of
from infold.core.judge import Told
from infold.core.summary import SummaryRequest
from infold.errors import UsageError
from infold.formats.requests import answer_of, summary_body
from infold.formats.wire import ANTHROPIC_MESSAGES

__all__ = ["summariser"]


def summariser(model: str, client: anthropic.Anthropic | None = None) -> Callable[[SummaryRequest], Told]:
    """Summaries by the model of this name; raises `UsageError` where there is no key for it."""
    asked = client or anthropic.Anthropic()
    if client is None and not (asked.api_key or asked.auth_token or asked.credentials):
        raise UsageError(f"{model} cannot be asked for summaries: set ANTHROPIC_API_KEY, or pass a callable")

    own_name = model.removeprefix("anthropic/")  # as some catalogues write it, and the API does not

    def summarise(request: SummaryRequest) -> Told:
        reply = asked.messages.create(**summary_body(ANTHROPIC_MESSAGES, {"model": own_name}, request))
        body = reply.model_dump(mode="json", exclude_none=True)
        usage = ANTHROPIC_MESSAGES.usage(body)
        return Told(answer_of(ANTHROPIC_MESSAGES, body), model, usage, cost_of(model, usage))

    return summarise
