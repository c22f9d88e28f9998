"""Where the files of a replay are worked on."""

import os
import signal
from contextlib import closing
from multiprocessing import active_children
from pathlib import Path
from socket import create_server

import pytest

from infold.errors import UsageError
from infold.replay import engines
from infold.replay.engines import Batch, run_here, run_in_processes, run_on_ray


def work(item: int) -> str:
    """Die for the items 13 and 17, by a signal and by leaving; return the others as text."""
    if item == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    if item == 17:
        os._exit(3)
    return str(item)


def crashed(item: int, reason: str) -> str:
    """The result of an item whose worker died."""
    return f"{item}: {reason}"


def batch(*items: int) -> Batch[int, str]:
    """Items whose sizes are their values."""
    return Batch(work=work, items=items, sizes=items, crashed=crashed)


def test_large_items_are_started_first() -> None:
    """The order of starting follows the sizes; the place of each item stays with its result."""
    given = batch(2, 9, 4)

    assert given.largest_first == [1, 2, 0]
    assert [(done.place, done.result) for done in run_here(given)] == [(0, "2"), (1, "9"), (2, "4")]


@pytest.mark.slow
def test_crash_costs_one_item() -> None:
    """A worker that dies is reported for the item it had, with the reason; a new one goes on with the rest."""
    items = (13, 1, 17, 2, 3)
    found = {done.place: done.result for done in run_in_processes(batch(*items), 2)}
    results = [found[place] for place in range(len(items))]

    assert results[1::2] == ["1", "2"]
    assert results[4] == "3"
    assert "SIGKILL" in results[0]
    assert "fewer --jobs" in results[0]
    assert "status 3" in results[2]
    assert active_children() == []


@pytest.mark.slow
def test_closing_ends_the_processes() -> None:
    """A consumer that stops early leaves no process."""
    with closing(run_in_processes(batch(*range(12)), 2)) as finished:
        next(finished)
        assert active_children()

    assert active_children() == []


def test_node_that_could_differ_refuses() -> None:
    """A node with another infold, another way to count, or without the folder says so instead of working."""
    here = str(Path.cwd())
    own = engines._describe_counting()

    assert engines._work_on_node(own, here, work, 4) == "4"
    assert "install the same" in str(engines._work_on_node("infold 0.0.0 with exact token counts", here, work, 4))
    assert "cannot open the folder" in str(engines._work_on_node(own, "/no/such/folder", work, 4))


def test_address_that_does_not_answer_is_refused_at_once() -> None:
    """Only an address with a port is tried, with or without a scheme."""
    with create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
        engines._check_address(f"127.0.0.1:{port}")
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
        with pytest.raises(OSError, match="refused"):
            engines._check_address(address)
    engines._check_address("auto")
    engines._check_address("")


def test_ray_that_is_missing_is_named() -> None:
    """Without Ray the error has the line that installs it; with Ray and without a cluster, the line that starts one."""
    with pytest.raises(UsageError, match=r"infold\[ray\]|ray start --head"):
        list(run_on_ray(batch(1), None))
