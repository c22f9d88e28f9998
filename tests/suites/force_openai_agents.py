"""Puts infold's filter and hooks into every run of the OpenAI Agents SDK, for its suite; see `suite_plugin`.

The filter comes behind a test's own one, so that it sees what the model would get.
"""

from typing import Any

import agents.run
from agents.run_config import CallModelData, ModelInputData
from agents.run_internal import run_loop

from infold.integrations.openai_agents import InfoldFilter

_filter_input, _validate_hooks = run_loop.maybe_filter_model_input, agents.run.validate_run_hooks
_forced: list[InfoldFilter] = []
_requests: list[int] = [0]


async def filter_input(*, agent: Any, context_wrapper: Any, **arguments: Any) -> ModelInputData:
    """Apply a run's own filter, then infold's."""
    sent = await _filter_input(agent=agent, context_wrapper=context_wrapper, **arguments)
    _requests[0] += 1
    return await _forced[0](CallModelData(model_data=sent, agent=agent, context=context_wrapper.context))


def validate_hooks(hooks: Any) -> Any:
    """Let infold's hooks be called with those of a run."""
    own = _validate_hooks(hooks)
    if getattr(own, "infold", None) is _forced[0]:
        return own
    start, end, infold = own.on_llm_start, own.on_llm_end, _forced[0]

    async def on_llm_start(*arguments: Any) -> None:
        await infold.hooks.on_llm_start(*arguments)
        await start(*arguments)

    async def on_llm_end(*arguments: Any) -> None:
        await infold.hooks.on_llm_end(*arguments)
        await end(*arguments)

    own.infold, own.on_llm_start, own.on_llm_end = infold, on_llm_start, on_llm_end
    return own


run_loop.maybe_filter_model_input = filter_input
agents.run.validate_run_hooks = validate_hooks


def begin(window: int) -> None:
    """Make a filter for the next test."""
    _forced[:] = [InfoldFilter(window=window)]


def end() -> None:
    """Close its sessions."""
    _forced[0].sessions.close()


def requests() -> int:
    """Return how many requests went through a filter."""
    return _requests[0]
