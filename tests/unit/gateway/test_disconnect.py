"""What is done for a client ends when it leaves, and not before."""

import asyncio

import pytest
from starlette.types import Message

from infold.gateway.relay import cancel_on_disconnect

GONE: Message = {"type": "http.disconnect"}
MOST_STEPS = 50
"""How often a busy task may go on after its client left; a few rounds of the event loop are needed to see that."""


class Client:
    """Leaves when it is told to."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()
        self._first: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive(self) -> Message:
        """What it says next."""
        if self._first:
            return self._first.pop()
        await self.leaves.wait()
        return GONE


def test_what_is_done_is_waited_for() -> None:
    """The work ends in its own time while the client stays; its watcher ends with it."""
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("all of it")

    async def main() -> int:
        await cancel_on_disconnect(Client().receive, work())
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    assert done == ["all of it"]


def test_an_error_is_raised() -> None:
    """It is the work's own."""

    async def work() -> None:
        raise OSError("no more room")

    async def main() -> None:
        await cancel_on_disconnect(Client().receive, work())

    with pytest.raises(OSError, match="no more room"):
        asyncio.run(main())


def test_leaving_ends_what_waits() -> None:
    """Its last acts are done before anything else goes on."""
    done: list[str] = []

    async def main() -> None:
        client = Client()

        async def work() -> None:
            client.leaves.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                done.append("closed")

        await cancel_on_disconnect(client.receive, work())
        done.append("went on")

    asyncio.run(main())

    assert done == ["closed", "went on"]


def test_leaving_ends_what_never_waits_long() -> None:
    """Something is there to be read in every round of the event loop, as from a fast upstream; the task is ended all the same."""

    async def main() -> int:
        client, loop = Client(), asyncio.get_running_loop()
        coming = loop.create_future()
        steps = 0

        def come() -> None:  # as the loop looks at sockets: after what is ready, and before the next round
            if not coming.done():
                coming.set_result(None)
            loop.call_later(0, come)

        async def work() -> None:
            nonlocal coming, steps
            client.leaves.set()
            while steps < MOST_STEPS:
                coming = loop.create_future()
                await coming
                steps += 1

        come()
        await cancel_on_disconnect(client.receive, work())
        return steps

    assert asyncio.run(main()) < MOST_STEPS


def test_a_server_that_stops_ends_both() -> None:
    """Neither the work nor its watcher outlives the task that asked for them."""

    async def main() -> int:
        task = asyncio.create_task(cancel_on_disconnect(Client().receive, asyncio.Event().wait()))  # type: ignore[arg-type]  # any work
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
