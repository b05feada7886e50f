"""Two hundred seeded damages of ten classes in a capture of SmolLM2, without stamps.

By the model's table every row of layer 0 that changed is found and no other accused; by repetition
no row is accused that did not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from examples.capture_smollm2 import GGUF_FILE, weights_folder
from kvaudit import api
from kvaudit.core.audit_options import Layer0
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.importers.model_weights import model_table
from tests.helpers.diagnosing import report_of
from tests.helpers.layer0_damages import DAMAGES, Damage, Layer0Copy, outcome, ranks_mixed

CLEAN = Path(__file__).parents[3] / "examples" / "smollm2-clean"
SEEDS = range(20)
# What the rules call each class; a row that is right by chance may split a cause in two.
CAUSES = {
    "overwritten_page": {"stale page", "late writer"},
    "swapped_pages": {"page permutation"},
    "foreign_prefix": {"foreign content"},
    "one_late_token": {"foreign content", "late writer", "slot shift"},
    "shifted_slots": {"slot shift"},
    "zero_rows": {"zeros"},
    "ranks_mixed": {"another rank's heads"},
    "stale_table": {"stale page", "late writer"},
}


@dataclass
class Tally:
    """Over all seeds of a class."""

    changed: int = 0
    found: int = 0
    accused: int = 0


@cache
def smollm2_table() -> Layer0Table:
    return model_table(str(Path(weights_folder()) / GGUF_FILE), dtype="bfloat16")


@cache
def captured() -> AuditedPool:
    return api.open([CLEAN]).pools[0]


def tally(damage: Damage, layer0: Layer0 | Layer0Table, causes: set[str]) -> Tally:
    """Every seed of a class; causes are added to those that findings named."""
    total = Tally()

    def accused_slots(copy: Layer0Copy) -> set[int]:
        findings = report_of(copy.dataset(), layer0=layer0).findings
        causes.update(f.evidence["cause"] for f in findings if f.rule == "KV210")
        wrong = [f for f in findings if f.rule in ("KV210", "KV211")]
        return {slot for finding in wrong for slot in finding.slots}

    for seed in SEEDS:
        rng = np.random.default_rng((seed, DAMAGES.index(damage)))
        head = int(rng.integers(3)) if damage is ranks_mixed else None
        copy = Layer0Copy.of(captured(), smollm2_table(), head=head)
        found = outcome(copy, damage, rng, accused_slots=accused_slots)
        total.changed += found.changed
        total.found += found.found
        total.accused += found.accused
    return total


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_by_the_model_s_table_all_of_a_damage_is_found_and_nothing_else(damage: Damage) -> None:
    causes: set[str] = set()
    total = tally(damage, smollm2_table(), causes)
    assert total.changed >= len(SEEDS) - 2
    assert total.found >= 0.99 * total.changed
    assert total.accused == 0
    assert causes <= CAUSES.get(damage.__name__, causes)
    assert bool(causes) == (damage.__name__ != "rotated_for_another_position")


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_by_repetition_nothing_else_is_accused(damage: Damage) -> None:
    total = tally(damage, Layer0.AUTO, set())
    assert total.accused == 0


def test_the_undamaged_capture_is_clean_either_way_and_says_how_much_it_judged() -> None:
    copy = Layer0Copy.of(captured(), smollm2_table())
    by_model = report_of(copy.dataset(), layer0=smollm2_table())
    by_repetition = report_of(copy.dataset())
    assert by_model.findings == by_repetition.findings == []
    identity = by_model.to_dict()["coverage"]["identity"]
    assert identity["checked"] == identity["planned"] == identity["positions_checked"] == 236
    assert by_repetition.to_dict()["coverage"]["identity"]["ratio"] > 0.5
