"""How the laws are run: enough examples to find what hides, the same ones each time in CI."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "laws",
    max_examples=int(os.environ.get("INFOLD_EXAMPLES", "80")),
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("laws")
