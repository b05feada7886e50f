from __future__ import annotations

import pytest

from kvaudit.diagnosis.log_groups import ViolationGroups, roots
from kvaudit.diagnosis.log_proofs import Proof, proofs_of
from kvaudit.importers.engine_log import read_engine_log
from tests.helpers.engine_logs import RECORDS, Record, log_of, rows


def _proofs(slot: int, record: Record, **options: bool) -> list[Proof]:
    groups = ViolationGroups()
    for row in read_engine_log([log_of(rows({**RECORDS, slot: record}, **options)).encode()]):
        groups.add(row)
    [(root, behind)] = roots(groups.slots())
    assert root.slot == slot
    return proofs_of(root, behind)


TOKEN, POSITION, HASH = RECORDS[7]


@pytest.mark.parametrize(
    ("record", "flipped"),
    [
        pytest.param((TOKEN, POSITION, HASH ^ 8), "1 bit of its prev_hash", id="T21"),
        pytest.param((TOKEN, POSITION, HASH ^ 0x70), "3 bits of its prev_hash", id="three bits"),
        pytest.param((TOKEN, POSITION ^ 2, HASH), "1 bit of its position", id="position"),
    ],
)
def test_flipped_bits_are_solved_from_the_slot_behind(record: Record, flipped: str) -> None:
    [proof] = _proofs(7, record)
    assert proof.rule == "KV208"
    assert f"token {TOKEN} at position {POSITION}" in proof.text
    assert flipped in proof.text


def test_a_flipped_token_is_solved_where_tokens_are_judged() -> None:
    [proof] = _proofs(7, (TOKEN ^ 1, POSITION, HASH), judges_tokens=True)
    assert (proof.rule, "1 bit of its token" in proof.text) == ("KV208", True)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(RECORDS[3], id="T04 another request's record at the same position"),
        pytest.param(RECORDS[5], id="T02 of another position"),
        pytest.param((TOKEN, POSITION, HASH ^ 0xF0), id="four bits"),
        pytest.param((TOKEN ^ 3, POSITION, HASH ^ 1), id="two words"),
    ],
)
def test_an_overwritten_record_is_told_from_one_that_was_stamped_wrong(record: Record) -> None:
    [proof] = _proofs(7, record)
    assert (proof.rule, proof.rules_out) == ("", "KV208")
    assert f"token {TOKEN} at position {POSITION}" in proof.text
    assert "written over" in proof.text


def test_the_last_slot_of_a_chain_proves_by_its_own_hash_alone() -> None:
    token, position, prev_hash = RECORDS[9]
    [near] = _proofs(9, (token, position, prev_hash ^ 1))
    assert (near.rule, near.text) == ("KV208", "its prev_hash is 1 bit of 64 from the expected one")
    assert _proofs(9, (token, position, prev_hash ^ 0xFF)) == []


def test_a_flip_that_is_the_same_on_several_ranks_is_no_fault_of_a_memory() -> None:
    ring = rows({**RECORDS, 7: (TOKEN, POSITION, HASH ^ 8)})
    text = log_of(ring, prefix="[TP0] ") + log_of(ring, prefix="[TP1] ")
    groups = ViolationGroups()
    for row in read_engine_log([text.encode()]):
        groups.add(row)
    [(root, behind)] = roots(groups.slots())
    [flip, shared] = proofs_of(root, behind)
    assert flip.rule == "KV208"
    assert "several ranks" in shared.text


def test_a_wrong_token_that_was_chained_proves_nothing() -> None:
    from tests.helpers.engine_logs import chain

    records = {**RECORDS, **chain((21, 77, 23, 24), (6, 7, 8, 9))}
    groups = ViolationGroups()
    for row in read_engine_log([log_of(rows(records, judges_tokens=True)).encode()]):
        groups.add(row)
    [(root, behind)] = roots(groups.slots())
    assert (root.slot, behind, proofs_of(root, behind)) == (7, [], [])
