from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.blame_report import Relation
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.slot_readers import SlotReader
from kvaudit.core.snapshot import DigestGrain
from kvaudit.runner.blame import slot_case
from tests.helpers import corruptions
from tests.helpers.blaming import alone, blamed
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import HEAD_HASH, build, fixture_f, link


def test_the_records_are_told_with_what_follows_from_them() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, canary=("k.head", "k.tail"))
    head, tail = blamed(world, 6).records
    assert (head.buffer, tail.buffer) == ("k.head", "k.tail")
    assert (tail.token, tail.position, tail.prev_hash) == (21, 0, HEAD_HASH)
    assert tail.slot_hash == link(HEAD_HASH, 21, 0)
    assert tail.real_kv_hash == tail.expected_real_kv_hash == world.real_kv_hash(6, "k")
    assert (head.real_kv_hash, head.expected_real_kv_hash) == (0, 0)


def test_a_token_above_63_bits_is_the_signed_word_that_is_stored() -> None:
    world = fixture_f()
    world.records["k.tail"][7, 0] = np.uint64((1 << 64) - 5)
    assert blamed(world, 7).records[0].token == -5


def test_what_the_allocator_and_the_engine_say_stands_beside_it() -> None:
    world = fixture_f()
    world.evidence["alloc.owner"] = np.array(["x", None] * 8, dtype=object)
    world.evidence["alloc.ref"] = np.arange(16, dtype=np.int32)
    assert blamed(world, 7).evidence == {"alloc.owner": None, "alloc.ref": 7}
    assert blamed(world, 6).evidence == {"alloc.owner": "x", "alloc.ref": 6}


def test_those_that_share_content_are_told_with_their_readers() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.copy_slots(world, [4], [7])
    report = blamed(world, 7)
    assert report.num_copies == 1
    assert report.copies[0].readers == [SlotReader(request_id="A", position=2)]


def test_a_slot_is_reserved_or_not_and_read_or_not() -> None:
    assert blamed(fixture_f(), 0).is_reserved
    assert not blamed(fixture_f(), 2).is_reserved
    assert blamed(fixture_f(), 2).has_expectations
    assert not blamed(alone(fixture_f().snapshot()), 2).has_expectations


def test_slot_0_is_a_slot_like_others_where_it_is_real() -> None:
    world = build(reserved="none", stamps=F_STAMPS).request("A", tokens=[11, 12], slots=[0, 1])
    damaged = world.done()
    corruptions.flip_bit(damaged, "kv.k.1", 0)
    report = blamed(damaged, "A@0")
    assert (report.slot, report.is_reserved) == (0, False)
    assert [found.finding.rule for found in report.findings] == ["KV304"]
    assert [neighbour.slot for neighbour in report.neighbours] == [1]
    assert [row.slot for row in report.violations] == [0]


def test_a_sparse_dump_of_a_draft_pool_is_read_by_its_own_rows() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.stamp_other_tokens(world, "A", offset=1)
    snapshot = world.snapshot(slots=range(2, 6), token_offset=1)
    report = blamed(world.dataset(snapshot=snapshot), "A@1")
    assert (report.slot, report.records[0].token, report.claims[0].token) == (3, 13, 13)
    assert report.violations == []


def test_claims_past_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_case, "MAX_CLAIMS", 3)
    world = fixture_f()
    world.requests += [replace(world.requests[0], request_id=f"r{number}") for number in range(7)]
    report = blamed(world, 3)
    assert (len(report.claims), report.num_claims) == (3, 8)
    assert blamed(world, 7).num_claims == 1


def test_a_row_without_records_bytes_and_evidence_is_still_told() -> None:
    report = blamed(fixture_f(canary=()).dataset(snapshot=fixture_f(canary=()).snapshot(kv={})), 7)
    assert (report.records, report.columns, report.copies, report.evidence) == ([], [], [], {})
    assert len(report.claims) == 1


def test_every_slot_of_a_page_that_differs_is_named() -> None:
    world = fixture_f(stamps=F_STAMPS, canary=())
    snapshot = world.snapshot(digests_only=True)
    stamped = {
        name: ArrayColumn(name=column.name, values=np.repeat(column.read()[::2], 2))
        for name, column in snapshot.digests.items()
    }
    wrong = stamped["kv.k.0"].values.copy()
    wrong[6:8] ^= 5
    digests = {**stamped, "kv.k.0": ArrayColumn(name="digest.k.0", values=wrong)}
    paged = replace(snapshot, stamped=stamped, digests=digests, digest_grain=DigestGrain.PAGE)
    for slot, named in ((6, ["KV301"]), (7, ["KV301"]), (8, [])):
        report = blamed(world.dataset(snapshot=paged), slot)
        assert [found.rule for found in report.related(Relation.NAMES)] == named
        assert [row.columns for row in report.violations] == [("kv.k.0",)] * len(named)
