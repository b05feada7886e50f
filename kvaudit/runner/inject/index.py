"""Faults of the tables: what sequences, plans, maps and the allocator say of each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import AllocState
from kvaudit.runner.inject.chains import Chain, Damage, damage_of
from kvaudit.runner.inject.content import copy_slots
from kvaudit.runner.inject.copy import PoolCopy


def slot_alias(copy: PoolCopy) -> Damage:
    """Give a request a slot of another one's at another position, and let it write there."""
    chains = copy.chains_with(2)
    chain = chains[0]
    others = [other for other in copy.chains if other is not chain and len(other) > 1]
    if not others:
        raise copy.refusal("two requests with 2 slots each that no other has")
    other = others[int(copy.rng.integers(len(others)))]
    # The owner's slot in the middle, so that its own content goes on behind.
    row = other.rows[len(other) // 2]
    idx = copy.place_in(chain, first=1, last=len(chain))
    if chain.first_position + idx == other.first_position + len(other) // 2:
        row = other.rows[len(other) // 2 - 1]
    if copy.snapshot.canary or copy.snapshot.kv or copy.snapshot.digests:
        copy_slots(copy, chain.rows[idx : idx + 1], np.array([row]))
    _set_slot(copy, chain, idx, slot=int(copy.snapshot.slots[row]))
    return damage_of(copy.snapshot, np.array([row]), chain, other)


def slot_out_of_range(copy: PoolCopy) -> Damage:
    """Let the last entry of a request name a slot that the pool does not have."""
    chain = copy.chains_with(1)[0]
    slot = copy.snapshot.num_slots + int(copy.rng.integers(1, 1 << 16))
    _set_slot(copy, chain, copy.place_in(chain, first=len(chain) - 1, last=len(chain)), slot=slot)
    return Damage(slots=[slot], request_ids=[chain.request_id])


def broken_link(copy: PoolCopy) -> Damage:
    """Link an entry of a plan to a slot that is not of the position before."""
    for number, plan in enumerate(copy.plans):
        for at, launch in enumerate(plan.launches):
            part = launch.plan
            linked = np.flatnonzero(part.verify_prev_slot_indices[: len(part)] > 0)
            if not part.enable or len(linked) <= 1:
                continue
            entry = int(copy.rng.choice(linked[1:]))
            prev_slots = part.verify_prev_slot_indices.copy()
            prev_slots[entry] = part.verify_slot_indices[entry]
            broken = replace(launch, plan=replace(part, verify_prev_slot_indices=prev_slots))
            launches = [*plan.launches[:at], broken, *plan.launches[at + 1 :]]
            copy.plans[number] = replace(plan, launches=launches)
            names = launch.request_ids
            return Damage(
                slots=[int(part.verify_slot_indices[entry])],
                request_ids=[] if names is None else [names[entry]],
            )
    raise copy.refusal("a plan with two entries that follow others")


def length_mismatch(copy: PoolCopy) -> Damage:
    """Let kv_len of a request reach one position past its slots or its tokens."""
    chain = copy.chains_with(1)[0]
    part = copy.sequences[chain.file]
    slots_end = part.start_positions[chain.number] + len(part.slots_of(chain.number))
    kv_lens = part.kv_lens.copy()
    kv_lens[chain.number] = min(slots_end, len(part.tokens_of(chain.number))) + 1
    copy.sequences[chain.file] = replace(part, kv_lens=kv_lens)
    return Damage(request_ids=[chain.request_id])


def swa_map_stale(copy: PoolCopy) -> Damage:
    """Map the last two slots of a request to one window slot."""
    targets = copy.evidence("swa_slot")
    chain = copy.chains_with(2)[0]
    idx = copy.place_in(chain, first=len(chain) - 1, last=len(chain))
    rows = chain.rows[idx - 1 : idx + 1]
    if targets[rows[0]] <= 0:
        raise copy.refusal("a swa_slot of the last slots of its requests")
    targets[rows[1]] = targets[rows[0]]
    return damage_of(copy.snapshot, rows, chain)


def live_slot_free(copy: PoolCopy) -> Damage:
    """Put a slot that a request holds on the free list."""
    states = copy.evidence("alloc.state")
    chain = copy.chains_with(1)[0]
    row = chain.rows[copy.place_in(chain, first=0, last=len(chain))]
    states[row] = str(AllocState.FREE)
    return damage_of(copy.snapshot, np.array([row]), chain)


def double_free(copy: PoolCopy) -> Damage:
    """Free a slot that nobody holds once more."""
    references = copy.evidence("alloc.ref")
    snapshot = copy.snapshot
    named = [snapshot.rows_of(part.slots) for part in copy.sequences]
    unused = ~snapshot.reserved_slots.mask(snapshot.slots)
    unused[np.concatenate([np.empty(0, dtype=np.int64), *named])] = False
    unused &= references == 0
    if not unused.any():
        raise copy.refusal("a slot with no reference (alloc.ref 0)")
    row = copy.rng.choice(np.flatnonzero(unused))
    references[row] = -1
    return Damage(slots=[int(snapshot.slots[row])])


def refcount_mismatch(copy: PoolCopy) -> Damage:
    """Let go of a slot that a running request holds."""
    references = copy.evidence("alloc.ref")
    running = [
        chain for chain in copy.chains_with(1) if chain.state in (None, SequenceState.RUNNING)
    ]
    if not running:
        raise copy.refusal("a running request")
    chain = running[0]
    row = chain.rows[copy.place_in(chain, first=0, last=len(chain))]
    references[row] = 0
    return damage_of(copy.snapshot, np.array([row]), chain)


def _set_slot(copy: PoolCopy, chain: Chain, idx: int, *, slot: int) -> None:
    part = copy.sequences[chain.file]
    slots = part.slots.copy()
    slots[chain.first_slot + idx] = slot
    copy.sequences[chain.file] = replace(part, slots=slots)
