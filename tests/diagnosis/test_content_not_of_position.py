from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.identity_findings import identity_finding, identity_findings
from tests.helpers.layer0_worlds import Layer0World, TokenModel, chatty_world, fixture_f


def test_a_row_rotated_for_another_position_names_it() -> None:
    world = fixture_f()
    world.k[7] = world.model.k([22], [4])[0]
    finding = identity_finding(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV211", [7], ["B"])
    assert finding.evidence["delta"] == 3
    assert finding.summary == (
        "slot 7 (page 3 +1) of request B holds its token 22 of position 1 with K of position 4 "
        "(+3); 1 slot in all"
    )


@pytest.mark.parametrize("delta", [1, 2, 7, 100, 3000])
def test_a_constant_shift_is_one_finding(delta: int) -> None:
    world = Layer0World(model=TokenModel(), num_slots=64, page_size=4)
    tokens = list(range(20, 60))
    world.request("A", tokens, range(4, 44))
    world.k[14:44] = world.model.k(tokens[10:], range(10 + delta, 40 + delta))
    finding = identity_finding(world)
    assert finding.evidence["delta"] == delta
    assert finding.slots == list(range(14, 44))
    assert finding.evidence["ranges"][0]["positions"] == [10, 39]


def test_two_shifts_are_two_findings() -> None:
    world = fixture_f()
    world.k[[3, 4]] = world.model.k([12, 13], [5, 6])
    world.k[8] = world.model.k([23], [1])[0]
    deltas = {f.evidence["delta"]: f.slots for f in identity_findings(world)}
    assert deltas == {4: [3, 4], -1: [8]}


def test_k_of_no_position_stays_open_to_other_causes() -> None:
    world = fixture_f()
    world.k[7] = world.model.stored(np.random.default_rng(4).standard_normal((1, 32)))[0]
    finding = identity_finding(world)
    assert "K of no position that is known" in finding.summary
    assert "delta" not in finding.evidence
    assert (finding.alternatives, bool(finding.settled_by)) == (["KV301"], True)


def test_a_wrong_token_is_not_a_wrong_position_too() -> None:
    world = fixture_f()
    world.write([7], [99], [5])
    assert [finding.rule for finding in identity_findings(world)] == ["KV210"]


def test_a_shared_prefix_taints_all_who_read_it() -> None:
    world = fixture_f().request("C", [11, 12, 77], [2, 3, 10])
    world.k[3] = world.model.k([12], [8])[0]
    assert identity_finding(world).request_ids == ["A", "C"]


def test_a_row_at_two_positions_is_not_judged() -> None:
    world = fixture_f().request("D", [12], [3])
    world.k[3] = world.model.k([12], [0])[0]
    assert identity_findings(world, select=("KV211",)) == []


def test_by_repetition_with_the_rotation_of_the_file() -> None:
    world = chatty_world()
    world.metadata["rope"] = world.model.rope.to_json()
    request = world.requests[1]
    places = [p for p in range(16, 60) if request.tokens[p] < 4]
    slots = [request.slots[p] for p in places]
    world.k[slots] = world.model.k([request.tokens[p] for p in places], [p + 5 for p in places])
    finding = identity_finding(world, layer0="auto")
    assert (finding.rule, finding.slots) == ("KV211", sorted(slots))
    assert finding.evidence["delta"] == 5


def test_a_token_that_both_texts_have_came_along_with_the_others() -> None:
    world = Layer0World(model=TokenModel(), num_slots=64, page_size=8)
    world.request("A", list(range(20, 36)), range(8, 24))
    world.request("B", [50, 51, 52, 23, 54, 55, 56, 57, *range(60, 68)], range(24, 40))
    world.copy(range(24, 32), range(16, 24))
    world.requests[0].tokens[11] = 23
    finding = identity_finding(world)
    assert (finding.rule, finding.slots) == ("KV210", list(range(16, 24)))
    assert finding.summary.endswith("8 slots in all")
    alone = identity_findings(world, select=("KV211",))
    assert alone == []
