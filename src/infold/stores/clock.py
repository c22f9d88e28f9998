"""The clock of the machine."""

import time


class SystemClock:
    """What time it is, by the operating system."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000
