"""Randomly damaged pools give by chain the rows of a model that takes a record at a time."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import FailReason, RealKvHashMode
from tests.helpers.worlds import HEAD_HASH, World, build, fold, link
from tests.runner.test_chain_recovery import alone


def _damaged_world(seed: int) -> World:
    """Chains that share prefixes, with flipped bits, zeroed slots and foreign copies."""
    rng = np.random.default_rng(seed)
    builder = build(
        num_slots=64,
        mode=RealKvHashMode(int(rng.integers(0, 3))),
        row_bytes=int(rng.choice([16, 24])),
        stamped_columns=("kv.k.0", "kv.v.1"),
        stamps=("kv.v.0",),
        canary=("k.head", "k.tail", "v.tail"),
        reserved=str(rng.choice(["0", "none", "0-3"])),
    )
    free = rng.permutation(np.arange(64)).tolist()
    for idx in range(6):
        tokens = rng.integers(0, 2, int(rng.integers(1, 10))).tolist()
        builder.request(f"r{idx}", tokens=tokens, slots=[free.pop() for _ in tokens])
    world = builder.done()
    for _ in range(int(rng.integers(0, 16))):
        one, other = rng.integers(0, 64, 2).tolist()
        match int(rng.integers(0, 4)):
            case 0:
                name, word = str(rng.choice(list(world.records))), int(rng.integers(0, 4))
                world.records[name][one, word] ^= np.uint64(1 << int(rng.integers(0, 64)))
            case 1:
                world.kv[str(rng.choice(list(world.kv)))][one, 3] ^= np.uint8(4)
            case 2:
                for array in (*world.records.values(), *world.kv.values()):
                    array[one] = 0
            case _:
                for array in world.records.values():
                    array[one] = array[other]
    return world


def _model(world: World) -> set[tuple[object, ...]]:
    """(tag or columns, slot, expected position, reasons) of every row, a record at a time."""
    rows: set[tuple[object, ...]] = set()
    held = set()
    for tag, column in (
        ("HEAD_K_FULL", "k.head"),
        ("TAIL_K_FULL", "k.tail"),
        ("TAIL_V_FULL", "v.tail"),
    ):
        records = {
            slot: [int(word) for word in words]
            for slot, words in enumerate(world.records[column])
            if words.any() and slot not in world.reserved
        }
        held |= records.keys()
        ends = {slot: link(words[2], *words[:2]) for slot, words in records.items()}
        for slot, (_, position, prev_hash, real) in records.items():
            due = {
                (records[prev][1] + 1) % 2**64
                for prev, hashed in ends.items()
                if hashed == prev_hash != HEAD_HASH
            } or {position}
            half, buffer = column.split(".")
            reasons = FailReason(0)
            if due != {position}:
                reasons |= FailReason.VERIFY_POSITION_MISMATCH
            if real != (0 if buffer == "head" else world.real_kv_hash(slot, half)):
                reasons |= FailReason.VERIFY_REAL_KV_HASH_MISMATCH
            if reasons:
                rows.add((tag, slot, due.pop(), reasons))
    for slot in held:
        stamp = world.stamps["kv.v.0"][slot]
        if stamp != fold(world.kv["kv.v.0"][slot, : world.read_bytes].tobytes()):
            rows.add((("kv.v.0",), slot, None, FailReason.COLUMN_DIGEST_MISMATCH))
    return rows


def test_random_pools_give_the_rows_of_the_model_on_every_backend(run) -> None:
    failed, reasons = 0, FailReason(0)
    for seed in range(60):
        world = _damaged_world(seed)
        report = run(alone(world.snapshot()), max_violations=10_000)
        found = {
            (row.columns, row.slot, None, row.reasons)
            if row.tag is None
            else (row.tag.name, row.slot, row.expected_position % 2**64, row.reasons)
            for row in report.violations
        }
        expected = _model(world)
        assert found == expected, f"seed {seed}"
        assert len(report.violations) == report.violations_total == len(expected)
        failed += bool(expected)
        for row in report.violations:
            reasons |= row.reasons
    assert 30 < failed < 60
    assert reasons == (
        FailReason.VERIFY_POSITION_MISMATCH
        | FailReason.VERIFY_REAL_KV_HASH_MISMATCH
        | FailReason.COLUMN_DIGEST_MISMATCH
    )
