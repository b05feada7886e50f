"""Stamps are the records and hashes that the reference kernels would write."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvaudit.capture.layouts import slot_views
from kvaudit.capture.stamps import Chain, PoolStamps
from kvaudit.constants import CHAIN_ANCHOR, NO_SEED, NO_STEP
from kvaudit.core.launch_tag import KvHalf, PoolKind
from kvaudit.kernels.fold.reference import launch_combine, launch_fold
from kvaudit.kernels.hash.reference import splitmix64_mix3

NUM_SLOTS = 24


@pytest.fixture
def kv() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)
    return [
        tuple(torch.randn(NUM_SLOTS, 2, 5, generator=generator) for _ in "kv") for _ in range(3)
    ]


def stamps_of(kv: list, layout: str = "slot head dim") -> PoolStamps:
    return PoolStamps(slot_views(kv, layout=layout, page_size=4), PoolKind.FULL)


def chain(first: int, tokens: list[int], slots: list[int], seed: int = NO_SEED) -> Chain:
    return Chain(
        seed_slot_idx=seed,
        positions=np.arange(first, first + len(tokens)),
        tokens=np.array(tokens),
        slots=np.array(slots),
    )


def reference_hash(tensor: torch.Tensor, slot: int) -> int:
    rows = tensor.reshape(NUM_SLOTS, -1).numpy().view(np.uint8)
    hashes = np.zeros(1, np.uint64)
    launch_fold(rows, np.array([slot]), hashes, 1, rows.shape[1], rows.shape[1])
    return int(hashes[0])


def reference_combined(kv: list, half: int, slot: int) -> int:
    combined = np.zeros(1, np.uint64)
    for layer in kv:
        launch_combine(np.array([reference_hash(layer[half], slot)], np.uint64), combined)
    return int(combined[0])


def test_records_form_a_chain_over_steps(kv: list) -> None:
    stamps = stamps_of(kv)
    stamps.stamp([chain(0, [11, 12], [7, 9])], step=1)
    stamps.stamp([chain(2, [13], [4], seed=9)], step=2)
    first = splitmix64_mix3(CHAIN_ANCHOR, 11, 0)
    expected = {
        7: (11, 0, CHAIN_ANCHOR),
        9: (12, 1, first),
        4: (13, 2, splitmix64_mix3(first, 12, 1)),
    }
    for half, records in stamps.records.items():
        for slot, record in expected.items():
            stored = [int(word) for word in records[slot].view(np.uint64)]
            assert stored == [*record, reference_combined(kv, half == KvHalf.V, slot)]
    assert np.flatnonzero(stamps.stamped_step >= 0).tolist() == [4, 7, 9]


def test_hashes_are_of_the_bytes_when_stamped(kv: list) -> None:
    stamps = stamps_of(kv)
    before = reference_hash(kv[1][0], 7)
    stamps.stamp([chain(0, [11], [7])], step=1)
    kv[1][0][7] += 1
    assert int(stamps.hashes["kv.k.1"][7].view(np.uint64)) == before != reference_hash(kv[1][0], 7)
    assert stamps.hashes["kv.k.1"][8] == 0


def test_requests_of_one_step_are_chains_of_their_own(kv: list) -> None:
    stamps = stamps_of(kv)
    stamps.stamp([chain(0, [1, 2], [4, 5]), chain(0, [3], [8])], step=1)
    heads = stamps.records[KvHalf.K][[4, 8], 2].view(np.uint64)
    assert [int(head) for head in heads] == [CHAIN_ANCHOR, CHAIN_ANCHOR]


def test_a_copy_keeps_the_stamp_and_notes_the_write(kv: list) -> None:
    stamps = stamps_of(kv)
    stamps.stamp([chain(0, [1, 2], [4, 5])], step=1)
    stamps.copy(np.array([4, 5]), np.array([12, 13]), step=3)
    for values in (*stamps.records.values(), *stamps.hashes.values(), stamps.stamped_step):
        np.testing.assert_array_equal(values[[12, 13]], values[[4, 5]])
    assert stamps.written_step[[4, 12]].tolist() == [1, 3]


def test_a_copy_of_what_was_never_stamped_is_not_stamped(kv: list) -> None:
    stamps = stamps_of(kv)
    stamps.stamp([chain(0, [1], [4])], step=1)
    stamps.copy(np.array([9]), np.array([4]), step=2)
    assert stamps.stamped_step[4] == NO_STEP
    assert not stamps.records[KvHalf.K][4].any()


def test_a_fused_pool_has_records_of_k_alone() -> None:
    stamps = stamps_of([torch.zeros(NUM_SLOTS, 6)], layout="slot dim")
    assert list(stamps.records) == [KvHalf.K]
    assert stamps.columns_of(KvHalf.K) == ["kv.kv.0"]
    assert [key for key, _ in stamps.canary_columns(np.array([1]))] == ["k.tail"]


def test_columns_are_named_as_in_the_file(kv: list) -> None:
    slots = np.array([4, 5])
    stamps = stamps_of(kv)
    stamps.stamp([chain(0, [1, 2], [4, 5])], step=6)
    named = {
        column.name: column.read()
        for columns in (stamps.canary_columns, stamps.stamped_columns, stamps.evidence_columns)
        for _, column in columns(slots)
    }
    assert list(named) == [
        "canary.k.tail",
        "canary.v.tail",
        *(f"stamped.{half}.{layer}" for layer in range(3) for half in "kv"),
        "written_step",
        "stamped_step",
    ]
    assert named["stamped_step"].tolist() == [6, 6]
    assert named["canary.v.tail"][:, 0].tolist() == [1, 2]
