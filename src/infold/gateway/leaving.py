"""A client that leaves: what is done for it ends at once, so that nobody pays for what nobody hears."""

from asyncio import FIRST_COMPLETED, Task, create_task, gather, wait
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive


async def until_left(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, whose errors are raised; where the client leaves first, it is cancelled, and that is no error.

    The web framework's own way asks a task to end only while it waits: one that always finds something to read, as from an
    upstream that is faster than we are, would never be asked.
    """
    working, leaving = create_task(work), create_task(_left(receive))
    try:
        await wait({working, leaving}, return_when=FIRST_COMPLETED)
    finally:
        await _ended(working, leaving)
    if not working.cancelled():
        working.result()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _ended(*tasks: Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await gather(*tasks, return_exceptions=True)
