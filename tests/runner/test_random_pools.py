"""Random damaged pools: every backend, and a model of one entry at a time, give one result."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit import api
from kvaudit.constants import FailReason, RealKvHashMode
from kvaudit.core.audit_options import AuditOptions
from tests.helpers.worlds import HEAD_HASH, Request, World, build, fold, link

NUM_SLOTS = 64
OPTIONS = AuditOptions(select=("KV0",), max_violations=10_000)
STAMPED = ("kv.k.0", "kv.v.0")


def _world(seed: int) -> World:
    rng = np.random.default_rng(seed)
    builder = build(
        num_slots=NUM_SLOTS,
        mode=RealKvHashMode(int(rng.integers(0, 3))),
        row_bytes=int(rng.choice([16, 24, 40])),
        stamped_columns=("kv.k.0", "kv.k.1", "kv.v.1"),
        stamps=STAMPED,
        canary=("k.head", "k.tail", "v.tail"),
        reserved=str(rng.choice(["0", "none", "0-3"])),
    )
    slots = rng.permutation(np.arange(4, NUM_SLOTS)).tolist()
    for idx in range(6):
        length = int(rng.integers(1, 10))
        tokens = rng.integers(0, 9, length).tolist()
        builder.request(f"r{idx}", tokens=tokens, slots=[slots.pop() for _ in range(length)])
    world = builder.done()
    for _ in range(int(rng.integers(0, 12))):
        slot, kind = int(rng.integers(0, NUM_SLOTS)), int(rng.integers(0, 4))
        if kind == 0:
            name = str(rng.choice(list(world.records)))
            world.records[name][slot, int(rng.integers(0, 4))] ^= np.uint64(
                1 << int(rng.integers(0, 64))
            )
        elif kind == 1:
            name = str(rng.choice(list(world.kv)))
            world.kv[name][slot, int(rng.integers(0, world.read_bytes))] ^= np.uint8(4)
        elif kind == 2:
            for array in (*world.records.values(), *world.kv.values()):
                array[slot] = 0
        else:
            request = world.requests[int(rng.integers(0, 6))]
            request.slots[int(rng.integers(0, len(request.slots)))] = int(rng.integers(-2, 70))
    return world


def _model(world: World) -> list[tuple[object, ...]]:
    """(tag, slot, request, position, reasons) of every row, from DESIGN.md 3."""
    rows: list[tuple[object, ...]] = []
    for tag, column in (
        ("HEAD_K_FULL", "k.head"),
        ("TAIL_K_FULL", "k.tail"),
        ("TAIL_V_FULL", "v.tail"),
    ):
        used = [slot for slot in range(NUM_SLOTS) if slot not in world.reserved]
        if not world.records[column][used].any():
            continue
        for request in world.requests:
            for position in range(len(request.slots)):
                reasons = _reasons(world, request, position, column=column)
                if reasons:
                    slot = request.slots[position]
                    rows.append((tag, slot, request.request_id, position, reasons))
    for name in STAMPED:
        assert world.stamps[name].any()
    named = {slot for request in world.requests for slot in request.slots}
    padding = {0} if 0 in world.reserved else set()
    for slot in sorted(named - padding):
        if 0 <= slot < NUM_SLOTS:
            differing = tuple(
                name for name in STAMPED if world.stamps[name][slot] != _digest(world, name, slot)
            )
            if differing:
                rows.append((None, slot, differing))
    return rows


def _digest(world: World, name: str, slot: int) -> int:

    return fold(world.kv[name][slot, : world.read_bytes].tobytes())


def _reasons(world: World, request: Request, position: int, *, column: str) -> FailReason:
    records, slot = world.records[column], request.slots[position]
    half, buffer = column.split(".")
    if slot == 0 and 0 in world.reserved:
        return FailReason(0)
    if not 0 <= slot < NUM_SLOTS:
        return FailReason.SLOT_OUT_OF_RANGE
    token, stored_position, prev_hash, real = (int(word) for word in records[slot])
    reasons = FailReason(0)
    prev = -1 if position == 0 else request.slots[position - 1]
    if prev >= NUM_SLOTS:
        reasons |= FailReason.PREV_SLOT_OUT_OF_RANGE
    elif not (prev == 0 and 0 in world.reserved):
        expected = HEAD_HASH
        if prev >= 0:
            before = [int(word) for word in records[prev]]
            expected = link(before[2], before[0], before[1])
        if prev_hash != expected:
            reasons |= FailReason.VERIFY_CHAIN_HASH_MISMATCH
    if token != request.tokens[position]:
        reasons |= FailReason.VERIFY_TOKEN_MISMATCH
    if stored_position != position:
        reasons |= FailReason.VERIFY_POSITION_MISMATCH
    if real != (0 if buffer == "head" else world.real_kv_hash(slot, half)):
        reasons |= FailReason.VERIFY_REAL_KV_HASH_MISMATCH
    return reasons


def _rows(world: World, backend: str) -> list[tuple[object, ...]]:
    report = api.audit(world.dataset(), backend=backend, options=OPTIONS)
    assert report.violations_total == len(report.violations)
    return [
        (None, row.slot, row.columns)
        if row.tag is None
        else (row.tag.name, row.slot, row.request_ids[0], row.expected_position, row.reasons)
        for row in report.violations
    ]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_random_pools_give_the_rows_of_the_model(backend: str) -> None:
    failed = 0
    for seed in range(60):
        world = _world(seed)
        expected = _model(world)
        failed += bool(expected)
        assert sorted(_rows(world, backend), key=str) == sorted(expected, key=str), f"seed {seed}"
    assert failed > 30


def test_the_backends_give_one_report() -> None:
    for seed in range(60, 90):
        world = _world(seed)
        reports = [
            api.audit(world.dataset(), backend=backend, options=OPTIONS).to_dict()
            for backend in ("reference", "cpu")
        ]
        for report in reports:
            del report["backend"], report["timing"]
        assert reports[0] == reports[1], f"seed {seed}"
