from __future__ import annotations

from tests.helpers.comparing import HOST, THERE, compared, dumped


def test_a_leg_of_which_all_was_compared_leaves_nothing_to_say() -> None:
    assert compared(dumped(), dumped(THERE, key=HOST)).legs[0].unchecked == []


def test_content_requests_slots_and_columns_of_one_dump_alone_are_said() -> None:
    right = dumped(THERE, key=HOST)
    right.requests.pop()
    snapshot = right.snapshot(slots=(2, 10, 11, 12))
    del snapshot.kv["kv.v.1"]
    [leg] = compared(dumped(), right.dataset(snapshot=snapshot)).legs
    assert leg.unchecked == [
        "1 of 5 slots of A: B has none of their content",
        "request B: A alone holds them",
        "1 position of requests: B lacks the slots",
        "kv.v.1: A alone has it",
    ]


def test_record_columns_that_one_dump_alone_was_stamped_in_are_said() -> None:
    right = dumped(THERE, key=HOST)
    right.records["v.tail"][:] = 0
    [leg] = compared(dumped(), right).legs
    assert leg.unchecked == ["canary.v.tail: A alone has records in it"]
    [leg] = compared(dumped(canary=()), dumped(THERE, key=HOST)).legs
    assert leg.unchecked == [
        "canary.k.tail, canary.v.tail, canary.k.head: B alone has records in it"
    ]


def test_a_leg_without_a_match_says_why() -> None:
    left, right = dumped(), dumped(THERE, key=HOST)
    for request in right.requests:
        request.request_id += "'"
        request.tokens = [token + 100 for token in request.tokens]
        right.stamp_request(request)
    [leg] = compared(left, right).legs
    assert leg.unchecked[0].startswith("no slot is matched: ")
    assert "requests A, B: A alone holds them" in leg.unchecked
