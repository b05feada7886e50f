from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.audit_options import Layer0
from kvaudit.core.dataset import Dataset
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.snapshot import DigestGrain, DumpMoment
from kvaudit.runner.blame import content_copies
from tests.helpers import corruptions
from tests.helpers.blaming import alone, blamed, by_plan
from tests.helpers.layer0_worlds import chatty_world
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import fixture_f


def test_of_a_slot_of_which_all_is_known_nothing_is_said() -> None:
    assert blamed(fixture_f(stamps=F_STAMPS), 7).not_compared == []
    combined = fixture_f(
        mode=RealKvHashMode.ALL, stamped_columns=F_STAMPS, canary=("k.tail", "v.tail")
    )
    assert blamed(combined, 7).not_compared == []


def test_a_slot_without_a_claim_is_judged_by_nothing() -> None:
    world = fixture_f(stamps=F_STAMPS)
    assert blamed(world, 12).not_compared == [
        "no expectation names the slot: what a freed slot holds is not judged",
        "no record in k.tail: nothing was stamped there, or it is lost",
    ]
    [reserved, *_] = blamed(world, 0).not_compared
    assert reserved == "the slot is reserved: it holds no sequence, and garbage by right"
    [disabled, *_] = blamed(by_plan(world, enable=False), 7).not_compared
    assert disabled == "none of the claims on the slot is judged: it may hold anything"


def test_without_expectations_and_canary_that_is_said() -> None:
    said = blamed(alone(fixture_f(canary=(), stamps=F_STAMPS).snapshot()), 7).not_compared
    assert [sentence.partition(":")[0] for sentence in said] == ["no expectations", "no canary"]


def test_columns_without_stamps_are_counted() -> None:
    assert blamed(fixture_f(), 7).not_compared == [
        "no column is stamped: nothing says whether the slot's KV changed"
    ]
    assert blamed(fixture_f(stamps=F_STAMPS[:3]), 7).not_compared == [
        "1 of 4 columns are not stamped"
    ]
    nothing = fixture_f().snapshot(kv={})
    assert blamed(fixture_f().dataset(snapshot=nothing), 7).not_compared == [
        "no KV column: neither bytes nor digests were dumped"
    ]
    stamps_alone = fixture_f(stamps=F_STAMPS).snapshot(kv={})
    assert blamed(fixture_f().dataset(snapshot=stamps_alone), 7).not_compared == [
        "4 stamped columns have neither bytes nor digests in the file"
    ]


def test_a_wrong_combined_hash_does_not_say_which_column_changed() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamped_columns=F_STAMPS)
    corruptions.overwrite_bytes(world, 7)
    assert (
        "a combined hash is wrong, and does not say which of its columns changed"
        in blamed(world, 7).not_compared
    )


def test_a_combined_hash_of_which_a_column_lacks_is_not_recomputed() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamped_columns=F_STAMPS)
    snapshot = world.snapshot()
    kv = {name: column for name, column in snapshot.kv.items() if name != "kv.k.1"}
    lacking = "a combined hash cannot be recomputed: the file lacks kv.k.1"
    assert lacking in blamed(world.dataset(snapshot=replace(snapshot, kv=kv)), 7).not_compared
    partial = fixture_f(mode=RealKvHashMode.PARTIAL)
    digests = partial.dataset(snapshot=partial.snapshot(digests_only=True))
    assert lacking.replace("k.1", "k.0") in blamed(digests, 7).not_compared


def test_digests_of_slots_and_of_pages_tell_less() -> None:
    world = fixture_f(stamps=F_STAMPS, canary=())
    snapshot = world.snapshot(digests_only=True)
    alone_said = "the dump has digests alone: there are no bytes to look at"
    assert blamed(world.dataset(snapshot=snapshot), 7).not_compared[1:] == [alone_said]
    some = replace(snapshot, kv={"kv.k.0": world.snapshot().kv["kv.k.0"]})
    assert blamed(world.dataset(snapshot=some), 7).not_compared[1:] == [
        "3 columns have digests alone: there are no bytes to look at"
    ]
    same = {
        name: ArrayColumn(name=column.name, values=np.repeat(column.read()[::2], 2))
        for name, column in snapshot.digests.items()
    }
    paged = replace(snapshot, digests=same, stamped=same, digest_grain=DigestGrain.PAGE)
    assert blamed(world.dataset(snapshot=paged), 7).not_compared[1:] == [
        alone_said,
        "digests are of pages: what differs is somewhere in page 3",
    ]


def test_when_it_was_dumped_and_stamped_is_said() -> None:
    world = fixture_f(stamps=F_STAMPS)
    mid_step = world.dataset(snapshot=world.snapshot(at=DumpMoment.MID_STEP))
    assert blamed(mid_step, 7).not_compared == [
        "dumped in mid-step: bytes that differ are no violation"
    ]
    world.evidence["stamped_step"] = np.array([-1] * 8 + [3] * 8)
    assert blamed(world, 7).not_compared == ["the slot was never stamped: no launch judges it"]
    assert blamed(world, 8).not_compared == []


def test_mode_partial_covers_the_first_bytes_alone() -> None:
    world = fixture_f(mode=RealKvHashMode.PARTIAL, stamps=F_STAMPS)
    assert blamed(world, 7).not_compared == [
        "real_kv_hash covers the first 16 bytes of each of its columns alone"
    ]


def test_columns_that_were_not_searched_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_copies.ContentCopies, "searched", ("kv.k.0",))
    [said] = blamed(fixture_f(stamps=F_STAMPS), 7).not_compared
    assert said.startswith("content was searched for in 1 of 4 columns")


def test_a_slot_whose_token_layer_0_does_not_tell_of_says_so_and_no_other() -> None:
    world = chatty_world()
    words = [request.tokens for request in world.requests]
    request = world.requests[4]
    rare, common = (
        next(p for p in range(16, 60) if fits(sum(w.count(request.tokens[p]) for w in words)))
        for fits in (lambda count: count == 1, lambda count: count > 9)
    )
    pools = Dataset(pools=[world.pool()])
    fault = "layer 0 does not tell whether this is its token's KV"

    def is_said(position: int, **options: object) -> bool:
        said = blamed(pools, request.slots[position], **options).not_compared
        return any(sentence.startswith(fault) for sentence in said)

    assert is_said(rare)
    assert not is_said(common)
    assert not is_said(rare, layer0=Layer0.OFF)
