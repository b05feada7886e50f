from __future__ import annotations

from kvaudit.core.canary_health import CanaryHealth


def test_a_run_of_which_nothing_is_known_is_no_sick_one() -> None:
    health = CanaryHealth()
    assert not health.stalls
    assert health.ring_capacity is None
