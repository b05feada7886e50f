from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.sequences import SequenceState
from kvaudit.core.slot_readers import SlotClaim
from kvaudit.runner.blame.slot_claims import claims_on
from tests.helpers.blaming import by_plan
from tests.helpers.worlds import HEAD_HASH, World, build, fixture_f


def _claims(slot: int, pools: World | Dataset, **options: object) -> list[SlotClaim]:
    if isinstance(pools, World):
        pools = pools.dataset(snapshot=pools.snapshot(**options))
    pool: AuditedPool = pools.pools[0]
    hashes = np.arange(100, 100 + pool.snapshot.num_rows, dtype=np.uint64)
    return list(claims_on(slot, pool, slot_hashes={"k.tail": hashes}))


def test_a_sequence_expects_token_position_and_the_slot_before() -> None:
    [claim] = _claims(7, fixture_f())
    assert (claim.reader.request_id, claim.reader.position) == ("B", 1)
    assert (claim.token, claim.stored_position, claim.prev_slot) == (22, 1, 6)
    assert (claim.source, claim.is_head, claim.not_judged) == ("sequences", False, "")
    assert claim.prev_hashes == {"k.tail": 106}


def test_a_head_follows_the_anchor() -> None:
    [claim] = _claims(2, fixture_f())
    assert (claim.is_head, claim.prev_slot) == (True, None)
    assert claim.prev_hashes == {"k.tail": HEAD_HASH}


def test_every_request_that_shares_a_slot_claims_it() -> None:
    world = fixture_f()
    world.requests.append(replace(world.requests[0], request_id="C"))
    assert [claim.reader.request_id for claim in _claims(3, world)] == ["A", "C"]


def test_a_slot_before_the_window_is_not_reachable_and_nothing_follows() -> None:
    claims = _claims(4, fixture_f(), window=2)
    assert [(c.prev_slot, c.is_head, c.prev_hashes) for c in claims] == [
        (None, False, {"k.tail": None})
    ]
    [before] = _claims(3, fixture_f(), window=2)
    assert before.not_judged == "before the window: let go of"


def test_who_has_a_slot_without_being_judged_is_told_why() -> None:
    world = (
        build()
        .request("A", tokens=[11, 12, 13], slots=[2, 3, 4], kv_len=2)
        .request("B", tokens=[21], slots=[4], state=SequenceState.IN_FLIGHT)
        .request("C", tokens=[31], slots=[4], state=SequenceState.CACHED)
        .done()
    )
    assert [(c.reader.request_id, c.state, c.not_judged) for c in _claims(4, world)] == [
        ("C", "cached", ""),
        ("A", None, "at or past kv_len 2: no KV of it is written"),
        ("B", "in_flight", "in flight: counted, not judged"),
    ]


def test_a_plan_says_its_step_its_launches_and_whether_it_ran() -> None:
    [claim] = _claims(3, by_plan(fixture_f(), step=4, enable=False, names=False, padding=3))
    assert (claim.source, claim.not_judged) == ("plan of step 4", "its plan is disabled")
    assert (claim.reader.request_id, claim.reader.position) == (None, 1)


def test_a_token_that_is_not_checked_is_not_expected() -> None:
    [claim] = _claims(3, by_plan(fixture_f(), check_tokens=False))
    assert claim.token == -1


def test_padding_claims_nothing() -> None:
    assert _claims(0, by_plan(fixture_f(), padding=5)) == []


def test_slot_0_is_claimed_where_it_is_a_real_slot() -> None:
    world = build(reserved="none").request("A", tokens=[11, 12], slots=[0, 1]).done()
    assert [claim.is_head for claim in _claims(0, world)] == [True]
    [second] = _claims(1, world)
    assert (second.prev_slot, second.prev_hashes) == (0, {"k.tail": 100})


def test_what_the_engine_added_to_positions_is_told_apart() -> None:
    [claim] = _claims(3, fixture_f(), position_offset=5)
    assert (claim.reader.position, claim.stored_position) == (1, 6)
