"""What differs and is open: hashes then and now."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import FailReason, RealKvHashMode
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.rule import Rule
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.stamped_pools import F_STAMPS, shared_prefix
from tests.helpers.worlds import World, build, fixture_f, fold

RULE = Rule(id="KV999", name="a-rule", severity=Severity.ERROR)


def _view(world: World) -> ByteView:
    return Failures(failing(world)).byte_view


def _damaged(**options: object) -> World:
    world = fixture_f(**options)
    corruptions.overwrite_bytes(world, 7)
    return world


def test_each_column_that_differs_has_its_hashes_then_and_now() -> None:
    world = _damaged(stamps=F_STAMPS)
    channels = {channel.name: channel for channel in _view(world).channels()}
    assert list(channels) == ["kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1"]
    channel = channels["kv.v.1"]
    assert channel.rows.tolist() == [7]
    assert channel.held.tolist() == [fold(world.kv["kv.v.1"][7].tobytes())]
    assert channel.written[7] == world.stamps["kv.v.1"][7]


def test_a_combined_hash_that_differs_is_a_channel_of_its_half() -> None:
    world = _damaged(mode=RealKvHashMode.ALL)
    (channel,) = _view(world).channels()
    assert (channel.name, channel.rows.tolist(), channel.is_column) == ("k.tail", [7], False)
    assert channel.held.tolist() == [world.real_kv_hash(7, "k")]


def test_a_row_whose_record_is_not_explained_is_left_out() -> None:
    world = _damaged(stamps=F_STAMPS)
    corruptions.shift_positions(world, "B", first=1, delta=1)
    world.stamps["kv.k.0"][7] ^= np.uint64(1)
    assert not _view(world).rows().size


def test_a_flipped_hash_of_a_record_is_no_matter_of_bytes() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL)
    corruptions.flip_record_bit(world, 7, corruptions.REAL_KV_HASH)
    assert not _view(world).channels()


def test_rows_run_along_the_sequences_that_claim_them() -> None:
    view = _view(_shared())
    runs = [run.tolist() for run in view.runs(np.array([2, 3, 4, 8, 9, 12, 13, 15]))]
    assert sorted(runs) == [[2, 3, 4], [8, 9], [12, 13], [15]]


def _shared() -> World:
    world = shared_prefix()
    corruptions.overwrite_bytes(world, 4)
    return world


def test_what_is_claimed_stands_on_the_roots() -> None:
    view = _view(_damaged(stamps=F_STAMPS, mode=RealKvHashMode.ALL))
    explanation = Explanation(rule=RULE, cause=1, summary="", roots=np.array([7]))
    claimed = view.claiming(explanation)
    assert (len(claimed.failed), list(claimed.columns)) == (1, list(F_STAMPS))
    assert claimed.reasons is FailReason.VERIFY_REAL_KV_HASH_MISMATCH
    own = view.claiming(explanation, columns=["kv.v.1"])
    assert (len(own.failed), list(own.columns)) == (0, ["kv.v.1"])


def test_behind_the_first_thousand_runs_all_others_are_one() -> None:
    view = _view(_shared())
    runs = view.bounded_runs(np.arange(0, 16, 2))
    assert [run.tolist() for run in runs] == [
        run.tolist() for run in view.runs(np.arange(0, 16, 2))
    ]
    world = build(num_slots=2300, page_size=1, num_layers=1, stamps=("kv.k.0",))
    world = world.request("A", tokens=range(9, 2209), slots=range(2, 2202)).done()
    corruptions.overwrite_bytes(world, 7)
    bounded = _view(world).bounded_runs(np.arange(2, 2202, 2))
    assert [len(run) for run in bounded] == [1] * 1000 + [100]
