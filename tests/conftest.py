"""For all tests: random examples take as long as they take, and interrupts arrive even if the parent process ignores them."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job that a script started in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
