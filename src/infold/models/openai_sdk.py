"""The `openai` SDK as both of OpenAI's interfaces use it: a client for an address, and what its exceptions mean.

Address and key are the SDK's affair where none are given (`OPENAI_BASE_URL`, `OPENAI_API_KEY`), as are retries after short waits.
"""

from weakref import finalize

import openai

from infold.core.messages import ModelRef
from infold.errors import KeyRefused
from infold.models.failures import Failures, Line
from infold.models.transport import TRANSPORT, hand_back

VARIABLE = "OPENAI_API_KEY"
"""Where the SDK looks for a key."""

NO_KEY = "none"
"""What is sent for a key to a server of one's own; most want none."""

FAILURES = Failures(
    (openai.OpenAIError, *TRANSPORT.roots),
    {
        **TRANSPORT.kinds,
        "APIConnectionError": "cause",
        "APIError": "status",
        "APIRemovedInV1": "refused",
        "APIResponseValidationError": "broken",
        "APIStatusError": "status",
        "APITimeoutError": "busy",
        "AgentFilePreparationError": "refused",
        "AgentFileStagingError": "refused",
        "AgentOutputParseError": "refused",
        "AgentTurnResultError": "refused",
        "ContentFilterFinishReasonError": "refused",
        "LengthFinishReasonError": "refused",
        "MissingDependencyError": "refused",
        "MutuallyExclusiveAuthError": "key",
        "StreamAlreadyConsumed": "broken",
        "SubjectTokenProviderError": "key",
        "WebSocketConnectionClosedError": "broken",
        "WebSocketQueueFullError": "busy",
        "_AmbiguousModuleClientUsageError": "key",
    },
)


def client_for(model: str, *, url: str, key: str, variable: str) -> openai.OpenAI:
    """A client for that address, or for the SDK's own; raises `KeyRefused` where OpenAI itself is to be asked without a key."""
    http_client = openai.DefaultHttpxClient(event_hooks={"response": [hand_back]})
    try:
        client = openai.OpenAI(base_url=url or None, api_key=key or None, http_client=http_client)
    except openai.OpenAIError as error:
        if not url:
            raise KeyRefused(model, "there is no key for it", variable=variable) from error
        client = openai.OpenAI(base_url=url, api_key=NO_KEY, http_client=http_client)
    finalize(client, http_client.close)
    return client


def line_to(model: str, client: openai.OpenAI, *, variable: str) -> Line:
    """How failures of a client are told."""
    return Line(model, str(client.base_url), variable=variable, secret=client.api_key)


class OpenAIModel:
    """A model behind one of OpenAI's interfaces, at the SDK's own address or another.

    Without a `client` one is made; raises `KeyRefused` where there is no key for it. `variable` is where a person sets that key.
    """

    def __init__(
        self,
        ref: ModelRef,
        client: openai.OpenAI | None = None,
        *,
        url: str = "",
        key: str = "",
        variable: str = VARIABLE,
    ) -> None:
        self.ref = ref
        self.client = client or client_for(ref.id, url=url, key=key, variable=variable)
        self.line = line_to(ref.id, self.client, variable=variable)
