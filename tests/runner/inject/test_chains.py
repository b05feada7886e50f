from __future__ import annotations

import numpy as np

from kvaudit.core.sequences import SequenceState
from kvaudit.runner.inject.chains import Damage, chains_of, damage_of
from tests.helpers.worlds import World, build


def _of(world: World, **changes: object) -> dict[str, tuple[int, list[int], list[int]]]:
    snapshot = world.snapshot(**changes)
    return {
        chain.request_id: (
            chain.first_position,
            snapshot.slots[chain.rows].tolist(),
            chain.tokens.tolist(),
        )
        for chain in chains_of(snapshot, [world.sequences()])
    }


def test_a_chain_is_what_a_live_sequence_holds_behind_what_it_shares() -> None:
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    builder.request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2)
    builder.request("old", tokens=[7, 8], slots=[10, 11], state=SequenceState.FINISHED)
    assert _of(builder.done()) == {"A": (2, [4, 5], [13, 14]), "C": (2, [8, 9], [33, 34])}


def test_it_ends_at_kv_len_and_begins_behind_what_the_dump_does_not_have() -> None:
    world = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5], kv_len=3).done()
    assert _of(world) == {"A": (0, [2, 3, 4], [11, 12, 13])}
    assert _of(world, slots=[0, 3, 4, 5]) == {"A": (1, [3, 4], [12, 13])}


def test_a_window_is_all_that_is_judged() -> None:
    world = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5]).done()
    assert _of(world, window=2) == {"A": (2, [4, 5], [13, 14])}


def test_reserved_slots_and_unknown_tokens_are_no_ones_own() -> None:
    world = build().request("A", tokens=[11, 12, 13], slots=[2, 0, 4]).done()
    snapshot = world.snapshot()
    (chain,) = chains_of(snapshot, [world.sequences(tokens=False)])
    assert (snapshot.slots[chain.rows].tolist(), chain.tokens.tolist()) == ([4], [-1])


def test_damage_is_told_in_slots_and_requests() -> None:
    world = build().request("A", tokens=[11, 12], slots=[6, 2]).done()
    snapshot = world.snapshot(slots=[0, 2, 6])
    (chain,) = chains_of(snapshot, [world.sequences()])
    assert damage_of(snapshot, np.array([2, 1]), chain, chain) == Damage(
        slots=[2, 6], request_ids=["A"]
    )
