"""A clean engine's pool in every form that a dump may have."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kvaudit.capture.pool_dump import PoolDump
from kvaudit.constants import (
    NO_EXPECTED_TOKEN,
    NO_PREDECESSOR,
    PREDECESSOR_UNREACHABLE,
    LaunchTag,
    RealKvHashMode,
)
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.kv_column import ArrayColumn, KvColumn
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import DumpMoment, PoolKey, Snapshot
from tests.helpers.clean_requests import FINITE, CleanEngine
from tests.helpers.worlds import Request

FLOAT_TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn")


def dumped(engine: CleanEngine, key: PoolKey, **changes: object) -> AuditedPool:
    """The pool, with sequences, a plan, both, or neither."""
    rng, world, traits = engine.rng, engine.world, engine.traits
    world.key = key
    snapshot = _snapshot(engine, **changes)
    sequences = world.sequences(tokens=rng.random() < 0.8)
    form = rng.random()
    if form < 0.1:
        traits.add("no expectations")
        return AuditedPool(snapshot=snapshot)
    # Where slot 0 is a real one, a plan cannot say that a predecessor is out of reach.
    if form < 0.3 and 0 in world.reserved and "window" not in changes:
        traits.add("a plan")
        both = (sequences,) if rng.random() < 0.3 else ()
        return AuditedPool(snapshot=snapshot, sequences=both, plans=(_plan(engine),))
    if form < 0.7 and snapshot.digests and not snapshot.kv:
        traits.add("digests of pages")
        snapshot = _by_page(PoolDump(snapshot=snapshot, sequences=sequences).by_page().snapshot)
    return AuditedPool(snapshot=snapshot, sequences=(sequences,))


def _snapshot(engine: CleanEngine, **changes: object) -> Snapshot:
    rng, world, traits = engine.rng, engine.world, engine.traits
    _add_evidence(engine)
    digests_only, slots = rng.random() < 0.3, None
    if rng.random() < 0.2:
        extra = rng.sample(range(world.num_slots), rng.randint(0, 3))
        slots = sorted({*np.flatnonzero(engine.used()).tolist(), *extra})
        traits.add("sparse")
    if not engine.used().all():
        traits.add("slots without an expectation")
    for name, records in world.records.items():
        if name.startswith("v") and rng.random() < 0.5:
            records[:] = 0
            traits |= {"V half unstamped", "columns of zeros"}
    with_noise = rng.random() < 0.1
    if with_noise:
        _write_on(engine)
        changes["at"] = DumpMoment.MID_STEP
        traits.add("dump in mid-step")
    snapshot = world.snapshot(slots=slots, digests_only=digests_only, **changes)
    traits |= {"digests alone"} if digests_only else set()
    return replace(
        snapshot,
        kv=_columns(engine, snapshot),
        token_offset=engine.token_offset,
        position_offset=engine.position_offset,
    )


def _by_page(snapshot: Snapshot) -> Snapshot:
    """What a file of page digests keeps of a pool: of a page the stamp that all its slots have."""
    _, pages = np.unique(snapshot.slots // snapshot.page_size, return_inverse=True)
    evidence = {}
    if "stamped_step" in snapshot.evidence:
        steps = snapshot.evidence["stamped_step"].read()
        least = np.full(pages.max() + 1, steps.max())
        np.minimum.at(least, pages, steps)
        evidence["stamped_step"] = ArrayColumn(name="stamped_step", values=least[pages])
    return replace(snapshot, evidence=evidence)


def _columns(engine: CleanEngine, snapshot: Snapshot) -> Mapping[str, KvColumn]:
    """The KV columns with a type, or without; now and then one is not in the file."""
    rng, traits, columns = engine.rng, engine.traits, dict(snapshot.kv)
    dtype = rng.choice([*FLOAT_TYPES, "int8", ""])
    if dtype in FLOAT_TYPES and columns:
        traits.add("a float type")
    if columns and snapshot.real_kv_hash_mode is not RealKvHashMode.NONE and rng.random() < 0.2:
        del columns[rng.choice(snapshot.stamped_columns)]
        traits.add("column of a combined hash absent")
    return {name: replace(column, dtype=dtype) for name, column in columns.items()}


def _write_on(engine: CleanEngine) -> None:
    """A forward is about to write again to some slots: bytes first, then records and stamps."""
    for slot in engine.rng.sample(sorted(engine.written), min(3, len(engine.written))):
        for data in engine.world.kv.values():
            data[slot] = engine.rng.getrandbits(8) & FINITE


def _add_evidence(engine: CleanEngine) -> None:
    """What the allocator and the stamping say; both agree with the requests."""
    rng, world, evidence = engine.rng, engine.world, engine.world.evidence
    steps = np.full(world.num_slots, -1, dtype=np.int64)
    steps[sorted(set(engine.written) - engine.unstamped)] = rng.randint(0, 9)
    if engine.unstamped or rng.random() < 0.2:
        evidence["stamped_step"] = steps
    if rng.random() < 0.4 and world.requests:
        evidence |= _allocator(engine)
        engine.traits.add("allocator columns")


def _allocator(engine: CleanEngine) -> dict[str, np.ndarray]:
    world, used = engine.world, engine.used()
    states = np.where(used, "live", "free").astype(object)
    owners = np.full(world.num_slots, None, dtype=object)
    refs = np.zeros(world.num_slots, dtype=np.int32)
    cache_counts = engine.rng.random() < 0.5
    for request in world.requests:
        slots = [slot for slot in request.slots if slot not in world.reserved]
        if request.state is SequenceState.FINISHED:
            states[slots] = engine.rng.choice(["free", "cached"])
        elif request.state is SequenceState.CACHED:
            states[[slot for slot in slots if not refs[slot]]] = "cached"
            refs[slots] += cache_counts
        else:
            refs[slots] += 1
            states[slots], owners[slots] = "live", request.request_id
    return {"alloc.ref": refs, "alloc.state": states, "alloc.owner": owners}


def _plan(engine: CleanEngine) -> PlanDump:
    """The same as a plan of one step, or of one a tag, with unfilled rows and entries of slot 0."""
    rng, world = engine.rng, engine.world
    rows = [
        row
        for request in world.requests
        if request.state is not SequenceState.IN_FLIGHT
        for row in _entries(engine, request)
    ]
    rows += [(0, NO_EXPECTED_TOKEN, 0, PREDECESSOR_UNREACHABLE, "")] * rng.randint(0, 5)
    columns = [np.array([row[idx] for row in rows], dtype=np.int64) for idx in range(4)]
    plan = VerifyPlan(
        verify_slot_indices=columns[0],
        verify_expected_tokens=columns[1],
        verify_expected_positions=columns[2],
        verify_prev_slot_indices=columns[3],
        num_valid=len(rows),
    )
    tags = rng.choice([None, (LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL)])
    launch = PlannedLaunch(
        step=None,
        tags=tags,
        plan=plan,
        check_verify_expected_token=rng.random() < 0.5,
        request_ids=rng.choice([None, [row[4] for row in rows]]),
    )
    return PlanDump(key=world.key, launches=[launch])


def _entries(engine: CleanEngine, request: Request) -> list[tuple[int, int, int, int, str]]:
    """Slot, token, position, slot before and request of each position below kv_len."""
    slots = request.slots[: max(0, request.kv_len - request.start_position)]
    first = NO_PREDECESSOR if request.start_position == 0 else PREDECESSOR_UNREACHABLE
    found = []
    for idx, (prev_slot, slot) in enumerate(itertools.pairwise([first, *slots])):
        place = request.start_position + idx
        at = place + engine.token_offset
        token = request.tokens[at] if at < len(request.tokens) else NO_EXPECTED_TOKEN
        found.append((slot, token, place + engine.position_offset, prev_slot, request.request_id))
    return found
