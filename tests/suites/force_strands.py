"""Puts infold's middleware into every agent of Strands, for its suite; see `suite_plugin`.

The recall tool is left out, because tests of the suite list an agent's tools.
"""

from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any

from strands import Agent
from strands.middleware import InvokeModelStage

from infold.integrations.strands import InfoldMiddleware

_init = Agent.__init__
_forced: list[InfoldMiddleware] = []
_requests: list[int] = [0]


async def in_call(context: Any, next_fn: Callable[[Any], AsyncIterator[Any]]) -> AsyncIterator[Any]:
    """Make a model call fit with the middleware of the test that is running."""
    _requests[0] += 1
    async for event in _forced[0](context, next_fn):
        yield event


@wraps(_init)
def init(self: Agent, *arguments: Any, **keywords: Any) -> None:
    """Put the middleware into each agent that is made."""
    _init(self, *arguments, **keywords)
    self.add_middleware(InvokeModelStage, in_call)


Agent.__init__ = init


def begin(window: int) -> None:
    """Make a middleware for the next test."""
    _forced[:] = [InfoldMiddleware(window=window)]


def end() -> None:
    """Close its sessions."""
    _forced[0].sessions.close()


def requests() -> int:
    """Return how many requests went through a middleware."""
    return _requests[0]
