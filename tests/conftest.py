"""How random examples are drawn everywhere: as long as it takes, for machines are slow at times and no test is about that."""

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
