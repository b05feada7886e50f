from __future__ import annotations

from kvaudit.core.slot_readers import Neighbour, SlotClaim, SlotReader

READER = SlotReader(request_id="A", position=2)


def test_a_claim_is_json_values_with_hashes_as_text() -> None:
    claim = SlotClaim(
        reader=READER,
        source="sequences",
        token=13,
        stored_position=2,
        prev_slot=3,
        is_head=False,
        prev_hashes={"k.tail": 0x7B, "v.tail": None},
    )
    assert claim.to_dict() == {
        "request_id": "A",
        "position": 2,
        "source": "sequences",
        "state": None,
        "token": 13,
        "stored_position": 2,
        "prev_slot": 3,
        "head": False,
        "prev_hashes": {"k.tail": "0x000000000000007b", "v.tail": None},
        "not_judged": "",
    }


def test_a_neighbour_without_a_record_holds_nothing() -> None:
    assert Neighbour(slot=4, roles=["next slot"], readers=[READER]).to_dict() == {
        "slot": 4,
        "roles": ["next slot"],
        "token": None,
        "position": None,
        "readers": [{"request_id": "A", "position": 2}],
    }
