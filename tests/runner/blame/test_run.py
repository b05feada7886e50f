from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.blame_report import Relation
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.report import InputFile
from kvaudit.core.violation import Violation
from kvaudit.errors import ConfigError, FileCorrupt, InputError, SelfCheckFailed
from kvaudit.render.blame_report import blame_lines
from kvaudit.runner import self_check
from kvaudit.runner.inject import FAULT_CLASSES, FaultClass, inject
from tests.helpers import corruptions
from tests.helpers.blaming import alone, blamed, by_plan
from tests.helpers.diagnosing import report_of
from tests.helpers.injecting import pool_for
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, fixture_f


def _late_writer() -> World:
    world = fixture_f(stamps=F_STAMPS, mode=RealKvHashMode.ALL)
    corruptions.overwrite_slot(world, 7, token=99, position=1, prev_hash=123)
    return world


def test_the_rows_and_findings_of_a_slot_are_those_of_the_audit() -> None:
    world = _late_writer()
    report, audit = blamed(world, 7), report_of(world)
    assert [row.to_dict() for row in report.violations] == [
        row.to_dict() for row in audit.violations if row.slot == 7
    ]
    assert len(report.violations) == 2
    [named] = report.findings
    assert (named.relation, named.finding.rule) == (Relation.NAMES, "KV203")
    assert named.finding.to_dict() in [finding.to_dict() for finding in audit.findings]


def test_a_request_and_a_position_mean_the_slot() -> None:
    report = blamed(_late_writer(), "B@1")
    assert (report.slot, [claim.reader.request_id for claim in report.claims]) == (7, ["B"])


def test_a_clean_slot_has_no_row_and_no_finding() -> None:
    report = blamed(fixture_f(stamps=F_STAMPS), 7)
    assert (report.violations, report.findings, report.comparisons) == ([], [], [])
    assert report.self_check == "passed"
    assert [column.differs for column in report.columns] == [False] * 4


def test_without_the_pools_bytes_those_of_the_slot_are_compared_all_the_same() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.flip_bit(world, "kv.k.1", 7)
    whole, skipped = blamed(world, 7), blamed(world, 7, skip_bytes=True)
    assert [found.finding.rule for found in whole.findings] == ["KV304"]
    assert skipped.findings == []
    assert len(skipped.violations) == 1
    assert skipped.comparisons == whole.comparisons != []
    assert "the findings are without the pool's bytes, which were left out" in skipped.not_compared


def test_a_slot_is_of_one_pool() -> None:
    world = fixture_f()
    pools = [
        AuditedPool(snapshot=world.snapshot(path=f"{name}.snapshot.arrow")) for name in ("a", "b")
    ]
    with pytest.raises(ConfigError, match="there are 2") as error:
        blamed(Dataset(pools=pools), 7)
    assert error.value.hint == "name one of the snapshots: a.snapshot.arrow, b.snapshot.arrow"


def test_a_pool_of_a_run_that_is_not_whole_is_not_chosen_for_the_user() -> None:
    error = InputError("cut short", path="b.snapshot.arrow")
    with pytest.raises(InputError, match="cut short"):
        blamed(replace(fixture_f().dataset(), left_out=[error]), 7)


def test_a_missed_planted_entry_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "_SOURCE_HASH", 1)
    with pytest.raises(SelfCheckFailed):
        blamed(fixture_f(), 7)


def test_what_a_file_says_twice_is_held_against_each_other_once_for_the_pool() -> None:
    world = fixture_f(stamps=F_STAMPS)
    whole = world.snapshot(digests_only=True)
    snapshot = replace(world.snapshot(), digests=whole.digests)
    [column, *_] = blamed(world.dataset(snapshot=snapshot), 7).columns
    assert column.stamped == column.dumped == column.recomputed


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_every_backend_gathers_the_same(backend: str) -> None:
    document = blamed(_late_writer(), 7, backend=backend).to_dict()
    reference = blamed(_late_writer(), 7, backend="reference").to_dict()
    for each in (document, reference):
        del each["timing"], each["backend"]
    assert document == reference


def test_the_files_of_the_run_are_listed() -> None:
    files = (InputFile(path="a.snapshot.arrow", kind="snapshot"),)
    assert blamed(replace(fixture_f().dataset(), files=files), 7).inputs == files


def test_a_column_that_is_corrupt_ends_the_run() -> None:
    world = fixture_f(stamps=F_STAMPS)

    class Corrupt(ArrayColumn):
        def read(self) -> np.ndarray:
            raise FileCorrupt("a chunk's digest differs", column=self.name)

    corrupt = Corrupt(name="stamped.k.0", values=np.zeros(16, dtype=np.int64))
    with pytest.raises(FileCorrupt):
        blamed(alone(world.snapshot(stamped={"kv.k.0": corrupt})), 7)


def _random_world(seed: int) -> World:
    """A pool of some geometry with a few damages that need not be of one kind."""
    rng = np.random.default_rng(seed)
    page_size = int(rng.choice([1, 2, 4]))
    mode = RealKvHashMode(int(rng.integers(3)))
    world = fixture_f(
        num_slots=24,
        page_size=page_size,
        row_bytes=int(rng.choice([12, 16, 40])),
        mode=mode,
        stamped_columns=F_STAMPS[: int(rng.integers(1, 5))],
        stamps=F_STAMPS[: int(rng.integers(5))],
        canary=[("k.tail",), ("k.head", "k.tail", "v.tail"), ()][int(rng.integers(3))],
        reserved="none" if rng.random() < 0.3 else "0",
    )
    damages = [
        lambda: corruptions.flip_bit(world, "kv.k.1", 7, bit=int(rng.integers(96))),
        lambda: corruptions.overwrite_slot(world, 4, token=9, position=1, prev_hash=5),
        lambda: corruptions.swap_pages(world, 4 // page_size, 8 // page_size),
        lambda: corruptions.zero_slots(world, [8, 9]),
        lambda: corruptions.retoken(world, "A", position=1, token=99),
    ]
    for number in rng.choice(len(damages), size=int(rng.integers(3)), replace=False):
        damages[number]()
    return world


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["sequences", "plan", "alone", "digests", "sparse"])
def test_the_rows_of_all_slots_are_the_rows_of_the_audit(seed: int, kind: str) -> None:
    world = _random_world(seed)
    pools = {
        "sequences": world.dataset(),
        "plan": by_plan(world, padding=seed % 3),
        "alone": alone(world.snapshot()),
        "digests": world.dataset(snapshot=world.snapshot(digests_only=True)),
        "sparse": world.dataset(snapshot=world.snapshot(slots=range(2, 9))),
    }[kind]
    audit = report_of(pools)
    found: list[dict[str, Any]] = []
    for slot in pools.pools[0].snapshot.slots.tolist():
        report = blamed(pools, slot)
        assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["slot"] == slot
        assert blame_lines(report, call="kvaudit blame F")
        found += _comparable(report.violations, kind)
        named = [each.finding.rule for each in report.findings if each.relation is Relation.NAMES]
        assert named == [each.rule for each in audit.findings if slot in each.slots]
    rows = _comparable(audit.violations, kind)
    in_pool = [row for row in rows if row["slot"] in pools.pools[0].snapshot.slots]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, in_pool))


def _comparable(rows: Sequence[Violation], kind: str) -> list[dict[str, Any]]:
    """Rows as JSON values; the entries of chains are numbered among those that are judged."""
    found = [row.to_dict() for row in rows]
    return [{**row, "entry": None} if kind == "alone" else row for row in found]


# A slot outside the pool is none of it, and a length has no slot; these pools have neither side
# buffers nor a model's rows.
NOT_HERE = {"KV102", "KV104", "KV210", "KV211", "KV308"}
AT_A_SLOT = [fault for fault in FAULT_CLASSES if fault.rule not in NOT_HERE]


@pytest.mark.parametrize("fault", AT_A_SLOT, ids=lambda fault: fault.name)
def test_the_rule_of_an_injected_fault_is_named_at_its_slots(fault: FaultClass) -> None:
    injection = inject(pool_for(fault.rule, 4), fault.name, seed=3)
    pools = Dataset(pools=[injection.pool])
    assert injection.damage.slots
    for slot in injection.damage.slots[:2]:
        assert fault.rule in [found.rule for found in blamed(pools, slot).related(Relation.NAMES)]
