"""What a tag's records must carry as their real_kv_hash."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.snapshot import DumpMoment
from kvaudit.runner.canary_launch import launch_of
from tests.helpers.worlds import fixture_f

RECORDS = np.zeros((16, 4), dtype=np.int64)
HASHES = np.arange(16, dtype=np.uint64)
ALL, NONE = RealKvHashMode.ALL, RealKvHashMode.NONE


@pytest.mark.parametrize(
    ("tag", "mode", "at", "combined", "expects", "judged"),
    [
        pytest.param(LaunchTag.HEAD_K_FULL, ALL, "step_end", True, None, True, id="head"),
        pytest.param(LaunchTag.TAIL_K_FULL, NONE, "step_end", False, None, True, id="mode none"),
        pytest.param(LaunchTag.TAIL_K_FULL, ALL, "step_end", True, HASHES, True, id="tail"),
        pytest.param(LaunchTag.SWEEP_K_FULL, ALL, "step_end", True, HASHES, True, id="sweep"),
        pytest.param(LaunchTag.TAIL_K_FULL, ALL, "mid_step", True, HASHES, False, id="mid step"),
        pytest.param(LaunchTag.TAIL_K_FULL, ALL, "step_end", False, None, False, id="no column"),
        pytest.param(LaunchTag.TAIL_V_FULL, ALL, "step_end", True, None, True, id="no source"),
    ],
)
def test_a_launch_expects(tag, mode, at, combined, expects, judged) -> None:
    snapshot = fixture_f(mode=mode, stamped_columns=("kv.k.0",)).snapshot(at=DumpMoment(at))
    launch = launch_of(
        tag, RECORDS, snapshot=snapshot, combined={KvHalf.K: HASHES} if combined else {}
    )
    assert launch.real_kv_hashes is expects
    assert launch.real_kv_hash_judged is judged
    assert launch.records is RECORDS
