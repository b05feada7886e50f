from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.core.claims import claims_of
from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_evidence import LegEvidence, SlotPairs, TableDifference
from kvaudit.diagnosis.leg_differences import LegDifferences
from tests.helpers.comparing import HOST, THERE, change_byte, dumped, side_of


def _evidence(**changes: object) -> LegEvidence:
    right = dumped(THERE, key=HOST)
    change_byte(right, 12)
    one, other = side_of(dumped()), side_of(right, "B")
    values = {
        "name": "A->B",
        "kind": LegKind.TRANSFER,
        "left": one.snapshot,
        "right": other.snapshot,
        # Slots 2 and 12 of B are those of position 1 of B and of position 2 of A.
        "pairs": SlotPairs(left_rows=np.array([7, 4]), right_rows=np.array([2, 12])),
        "left_content": one.content,
        "right_content": other.content,
        "claims": claims_of((), other.snapshot),
        **changes,
    }
    return LegEvidence(**values)


def test_pairs_of_all_columns_are_told_once_each() -> None:
    found = LegDifferences(
        _evidence(
            differing={"kv.k.0": np.array([0]), "kv.v.1": np.array([0, 1])},
            num_differing=2,
            sources=np.array([-1]),
            zero=np.array([False]),
        )
    )
    assert found.pairs.tolist() == [0, 1]
    assert found.rows.tolist() == [2, 12]
    facts = found.facts()
    assert (facts["num_slots"], facts["num_columns"]) == (2, 2)
    assert facts["columns"] == ["kv.k.0", "kv.v.1"]
    assert [example["slot"] for example in found.hits().examples] == [2, 12]
    assert found.hits().examples[0]["num_columns"] == 2


def test_bytes_are_looked_at_where_both_dumps_have_them() -> None:
    found = LegDifferences(_evidence(differing={"kv.v.1": np.array([1])}, num_differing=1))
    assert found.bytes_of(1, "kv.v.1").byte == 9
    assert found.bytes_of(0, "kv.v.1") is None
    assert found.bytes_of(1, "kv.side.scales") is None


def test_bytes_that_no_digest_covers_are_not_told_of() -> None:
    evidence = _evidence(differing={"kv.v.1": np.array([1])}, num_differing=1)
    short = {n: replace(c, read_bytes=9) for n, c in evidence.left.kv.items()}
    blind = replace(evidence, left=replace(evidence.left, kv=short))
    assert LegDifferences(blind).bytes_of(1, "kv.v.1") is None


def test_many_columns_are_counted_and_not_all_listed() -> None:
    differing = {f"kv.k.{layer}": np.array([0]) for layer in range(150)}
    facts = LegDifferences(_evidence(differing=differing, num_differing=1)).facts()
    assert facts["num_columns"] == 150
    assert len(facts["columns"]) == 100


def test_without_a_slot_the_tables_are_told() -> None:
    table = TableDifference(request_id="A", what="request", left=1, right=0)
    found = LegDifferences(_evidence(tables=[table], num_tables=1))
    assert found.words() == "request A is in A alone"
    assert found.hits().request_ids == ["A"]
    assert found.settled_by() == ""
    assert found.alternatives() == ()
