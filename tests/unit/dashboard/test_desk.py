"""What the page needs of whoever serves it."""

from time import time

from infold.dashboard.desk import Desk
from infold.stores.memory import MemoryStore

from .desks import Acted, Told


def test_a_desk_needs_four_things() -> None:
    """Without more it cannot preview, and takes the time from the machine."""
    desk = Desk(store=MemoryStore(), acts=Acted(), feed=Told(), window_of=lambda _: None)

    assert desk.preview is None
    assert abs(desk.now_ms() - time() * 1_000) < 5_000
