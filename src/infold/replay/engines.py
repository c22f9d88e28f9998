"""Where the files of a replay are worked on: in this process, in several processes, or on a Ray cluster.

Each engine yields a result as soon as it is there, with the place of its item, so the results are the same whichever engine
made them. Large items are started first: a long one that starts last would leave the other processes without work. A worker
that crashes costs the item it was working on and no other.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from socket import create_connection
from typing import Any, Generic, TypeVar

from msgspec import Struct

from infold.errors import UsageError
from infold.session.counting import counting_for

Item = TypeVar("Item")
Result = TypeVar("Result")

STOP_SECONDS = 5.0
"""How long a process may take to end once it was asked to; then it is killed."""

CONNECT_SECONDS = 5.0
"""How long the head of a Ray cluster may take to accept a connection."""

TASKS_PER_PROCESSOR = 2
"""Tasks of a Ray cluster at once: one works while the next is on its way."""


class Batch(Struct, Generic[Item, Result], frozen=True):
    """Items to work on one by one; `crashed` makes the result of an item whose worker died, from the reason."""

    work: Callable[[Item], Result]
    items: Sequence[Item]
    sizes: Sequence[int]
    crashed: Callable[[Item, str], Result]

    @property
    def largest_first(self) -> list[int]:
        """The places of the items, in the order in which they are started."""
        return sorted(range(len(self.items)), key=lambda place: -self.sizes[place])


class Finished(Struct, Generic[Result], frozen=True):
    """The result of the item at this place."""

    place: int
    result: Result


def run_here(batch: Batch[Item, Result]) -> Generator[Finished[Result], None, None]:
    """Work on one item after the other in this process."""
    for place, item in enumerate(batch.items):
        yield Finished(place, batch.work(item))


# Several processes.


def run_in_processes(batch: Batch[Item, Result], jobs: int) -> Generator[Finished[Result], None, None]:
    """Work in that many processes at once; none of them is left when the iterator is closed."""
    waiting = deque(batch.largest_first)
    workers: dict[Connection, _Worker] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                worker = _Worker(batch.work)
                workers[worker.connection] = worker
                worker.give(waiting[0], batch.items[waiting.popleft()])
            for connection in wait(list(workers)):
                assert isinstance(connection, Connection)
                worker, result = workers[connection], _receive(connection)
                place = worker.place
                if result is None or not waiting:
                    del workers[connection]
                    reason = worker.end()
                else:
                    worker.give(waiting[0], batch.items[waiting.popleft()])
                yield Finished(place, result[0] if result else batch.crashed(batch.items[place], reason))
    finally:
        for worker in workers.values():
            worker.process.terminate()
        for worker in workers.values():
            worker.end()


class _Worker:
    """A process that works on one item at a time."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        # Not fork: a child would inherit the locks that the progress bar's thread may hold.
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self.place = -1
        with _interrupts_blocked():
            self.process.start()
        theirs.close()

    def give(self, place: int, item: object) -> None:
        """Have the process work on an item; if it died meanwhile, its connection reports that."""
        self.place = place
        with suppress(OSError):
            self.connection.send(item)

    def end(self) -> str:
        """Wait until the process has ended, and return why it did."""
        self.connection.close()
        self.process.join(STOP_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        status = self.process.exitcode or 0
        if status >= 0:
            return f"its process ended with status {status}; replay it alone with --jobs 1 to see why"
        return (
            f"its process was ended by {signal.Signals(-status).name}, perhaps for lack of memory; "
            "replay it alone, or use fewer --jobs"
        )


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """Work on items until the parent closes the connection or is gone."""
    with suppress(EOFError, OSError):
        while True:
            connection.send((work(connection.recv()),))


def _receive(connection: Connection) -> tuple[Any] | None:
    """Return a worker's result in a tuple; `None` if the worker died."""
    try:
        received: tuple[Any] = connection.recv()
    except (EOFError, OSError):
        return None
    return received


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C for processes started meanwhile: this process receives it, and ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it unblocks signals when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# A Ray cluster.


class _Refusal(Struct, frozen=True):
    """Why a node of the cluster cannot do the work."""

    problem: str


def run_on_ray(batch: Batch[Item, Result], jobs: int | None) -> Generator[Finished[Result], None, None]:
    """Work on a Ray cluster that is running already, with at most `jobs` tasks at once.

    Raise `UsageError` if Ray is not installed, there is no cluster, or a node has another infold or lacks the folder.
    """
    with _ray_cluster() as ray:
        task = ray.remote(max_retries=1)(_work_on_node)
        most = jobs or TASKS_PER_PROCESSOR * max(1, int(ray.cluster_resources().get("CPU", 1)))
        setting = (_describe_counting(), os.getcwd(), batch.work)  # noqa: PTH109
        waiting = deque(batch.largest_first)
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    place = waiting.popleft()
                    running[task.remote(*setting, batch.items[place])] = place
                for done in ray.wait(list(running))[0]:
                    place = running.pop(done)
                    yield Finished(place, _fetch(ray, done, batch, place))
        finally:
            for left in running:
                ray.cancel(left, force=True)


@contextmanager
def _ray_cluster() -> Iterator[Any]:
    """Connect to the cluster that `RAY_ADDRESS` names or that runs on this machine; yield the package."""
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError as error:
        raise UsageError("--engine ray needs Ray, which is not installed; pip install 'infold[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    try:
        _check_address(os.environ.get("RAY_ADDRESS", ""))
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        problem = " ".join(str(error).split())[:200]
        raise UsageError(
            f"cannot connect to a Ray cluster ({problem}); start one with 'ray start --head', or set RAY_ADDRESS to its address"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Raise `OSError` if a stated address does not answer: Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        create_connection((host, int(port)), CONNECT_SECONDS).close()


def _work_on_node(counting: str, folder: str, work: Callable[[Any], Any], item: object) -> object:
    """Work on an item, on a node of the cluster; return a `_Refusal` if the result could differ from ours."""
    found = _describe_counting()
    if found != counting:
        return _Refusal(
            f"a node of the cluster has {found}, this machine has {counting}; install the same on all of them"
        )
    try:
        os.chdir(folder)
    except OSError as error:
        return _Refusal(
            f"a node of the cluster cannot open the folder {folder} ({error.strerror}); "
            "start the replay in a folder that every node has at the same path"
        )
    return work(item)


def _describe_counting() -> str:
    """Return what results depend on besides the files: infold's version, and how tokens are counted."""
    counts = "exact token counts" if counting_for("o200k").is_exact else "estimated token counts"
    return f"infold {version('infold')} with {counts}"


def _fetch(ray: Any, reference: Any, batch: Batch[Any, Result], place: int) -> Result:
    try:
        result: Any = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        problem = str(error).strip().rpartition("\n")[2]
        raise UsageError(
            f"a node of the Ray cluster failed ({problem}); install the same infold, with the same extras, on every node"
        ) from error
    except ray.exceptions.RayError as error:
        problem = " ".join(str(error).split())[:200]
        return batch.crashed(batch.items[place], f"its worker on the Ray cluster crashed ({problem})")
    if isinstance(result, _Refusal):
        raise UsageError(result.problem)
    value: Result = result
    return value
