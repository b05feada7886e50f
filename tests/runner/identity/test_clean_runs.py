"""Four real runs without a fault: nothing is found in them, whatever their slots are judged by.

`python tests/benchmarks/clean_identity_runs.py` has twenty.
"""

from __future__ import annotations

import pytest

from tests.helpers.clean_identity import SOURCES, Judged, judged_by_all
from tests.helpers.plain_runs import dump_run, plain_run

SEEDS = {"bfloat16": (4, 14), "float32": (9, 13)}
# The least share of the slots that each source judges, of dumps as small as these.
LEAST_JUDGED = {"dump": 0.3, "learnt": 0.4, "model": 1.0}


@pytest.fixture(scope="module", params=SEEDS)
def judged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Judged]:
    folder = tmp_path_factory.mktemp("runs")
    runs = [plain_run(seed) for seed in SEEDS[request.param]]
    assert {str(run.dtype) for run in runs} == {f"torch.{request.param}"}
    dumps = {run.name: dump_run(run, folder) for run in runs}
    assert all(len(folders) == 3 for folders in dumps.values())
    return judged_by_all(dumps, dtype=request.param)


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_found_in_a_run_without_a_fault(judged: dict[str, Judged], source: str) -> None:
    found = judged[source]
    assert found.accusations == []
    assert found.dumps == 6
    assert found.checked >= LEAST_JUDGED[source] * found.planned
    assert found.positions >= 0.95 * found.checked
