from __future__ import annotations

from kvaudit.runner.identity.position_verdicts import PositionVerdicts
from tests.helpers.layer0_judging import rows_of
from tests.helpers.layer0_worlds import fixture_f


def test_at_first_every_row_is_open_and_none_is_wrong() -> None:
    verdicts = PositionVerdicts.of(rows_of(fixture_f()))
    assert verdicts.is_open.all()
    assert not verdicts.is_wrong.any()
    assert set(verdicts.positions.tolist()) == {-1}
    verdicts.distances[2] = 0.0
    assert verdicts.is_open.sum() == 7
