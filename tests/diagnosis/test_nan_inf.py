"""KV306: NaN and infinities in slots that are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.plan import PlanDump
from kvaudit.core.snapshot import DumpMoment
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, report_of
from tests.helpers.typed_pools import BAD_WORDS, finite_world, poison, put_word, typed
from tests.helpers.worlds import World, fixture_f


def _findings(world: World, **options: object) -> list[str]:
    report = report_of(world.dataset(snapshot=typed(world, **options)))
    return [finding.rule for finding in report.findings if not finding.rule.startswith("KV0")]


@pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
def test_t25_is_found_by_its_bytes_though_no_row_fails(tokens: bool) -> None:
    world = finite_world()
    poison(world, 4)
    report = report_of(world.dataset(snapshot=typed(world), tokens=tokens))
    assert not report.violations_total
    (finding,) = [found for found in report.findings if found.rule == "KV306"]
    assert (finding.slots, finding.request_ids) == ([4], ["A"])
    assert finding.evidence["columns"] == ["kv.k.1", "kv.v.1"]
    assert finding.summary == (
        "slot 4 (page 2 +0) holds a NaN or an infinity in kv.k.1, and was stamped with it"
    )


@pytest.mark.parametrize("mode", [RealKvHashMode.PARTIAL, RealKvHashMode.ALL])
def test_t25_is_clean_where_the_type_is_not_known(mode: RealKvHashMode) -> None:
    world = fixture_f(mode=mode)
    corruptions.stamp_nan(world, 4)
    assert not [found for found in report_of(world).findings if found.rule != "KV004"]


@pytest.mark.parametrize("word", BAD_WORDS)
def test_one_element_that_changed_is_enough(word: str) -> None:
    world = finite_world()
    put_word(world, "kv.k.0", 7, BAD_WORDS[word])
    put_word(world, "kv.k.0", 7, 0x1234, element=9)
    finding = finding_of(world.dataset(snapshot=typed(world)))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV306", [7], ["B"])
    assert finding.evidence["columns"] == ["kv.k.0"]


def test_a_plan_names_its_slots_too() -> None:
    world = finite_world()
    poison(world, 4)
    pool = AuditedPool(snapshot=typed(world), plans=(world.plan(),))
    (finding,) = report_of(Dataset(pools=[pool]), select=("KV306",)).findings
    assert finding.slots == [4]


def test_entries_past_num_valid_name_no_slot() -> None:
    world = finite_world()
    poison(world, 9)
    (launch,) = world.plan().launches
    plan = replace(launch.plan, num_valid=7)
    dump = PlanDump(key=world.key, launches=[replace(launch, plan=plan, request_ids=None)])
    pool = AuditedPool(snapshot=typed(world), plans=(dump,))
    assert not report_of(Dataset(pools=[pool]), select=("KV306",)).findings


def test_a_slot_that_nobody_reads_may_hold_anything() -> None:
    world = finite_world()
    poison(world, 12)
    assert not _findings(world)


def test_a_dump_in_mid_step_and_left_out_bytes_are_not_looked_at() -> None:
    world = finite_world()
    poison(world, 4)
    assert not _findings(world, at=DumpMoment.MID_STEP)
    snapshot = typed(world)
    assert not report_of(
        world.dataset(snapshot=snapshot), skip_bytes=True, select=("KV306", "KV307")
    ).findings


def test_a_clean_pool_has_no_finding() -> None:
    assert not _findings(finite_world())
