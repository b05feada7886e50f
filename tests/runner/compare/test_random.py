"""Random pools whose content lies elsewhere: clean where nothing changed, and exactly what did."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.comparison_choices import MatchBy
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import PoolKey, Snapshot
from tests.helpers.comparing import compared
from tests.helpers.injecting import random_pool

SEEDS = range(40)


def _moved(pool: AuditedPool, rng: random.Random) -> tuple[AuditedPool, np.ndarray]:
    """The same content in pages of another order, and the old slot of each new one."""
    snapshot = pool.snapshot
    pages = list(range(1, snapshot.num_slots // snapshot.page_size))
    rng.shuffle(pages)
    origins = np.array([0, *pages])[:, None] * snapshot.page_size + np.arange(snapshot.page_size)
    origins = origins.ravel()
    places = np.empty_like(origins)
    places[origins] = np.arange(len(origins))

    def column(values: ArrayColumn) -> ArrayColumn:
        return ArrayColumn(name=values.name, values=values.read()[origins])

    moved = replace(
        snapshot,
        key=PoolKey(tier="host"),
        canary={name: column(values) for name, values in snapshot.canary.items()},
        stamped={name: column(values) for name, values in snapshot.stamped.items()},
        digests={name: column(values) for name, values in snapshot.digests.items()},
        kv={name: replace(kv, data=kv.data[origins]) for name, kv in snapshot.kv.items()},
    )
    sequences = tuple(replace(part, slots=places[part.slots]) for part in pool.sequences)
    return AuditedPool(snapshot=moved, sequences=sequences), origins


def _held(sequences: Sequences) -> list[int]:
    return sorted({int(slot) for slot in sequences.slots})


def _damaged(snapshot: Snapshot, slots: list[int], rng: random.Random) -> dict[int, set[str]]:
    """Change bytes, or digests, of some slots; the columns of each."""
    damage: dict[int, set[str]] = {}
    for slot in slots:
        for name in rng.sample(sorted({*snapshot.kv, *snapshot.digests}), rng.randint(1, 2)):
            damage.setdefault(slot, set()).add(name)
            if name in snapshot.kv:
                snapshot.kv[name].data[slot, rng.randrange(16)] ^= np.uint8(rng.randint(1, 255))
            else:
                snapshot.digests[name].values[slot] ^= rng.randint(1, 1 << 40)
    return damage


@pytest.mark.parametrize("seed", SEEDS)
def test_what_moved_is_clean_and_what_changed_on_the_way_is_found_to_the_column(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test repeats itself
    here = random_pool(rng)
    there, _ = _moved(here, rng)
    match = rng.choice([MatchBy.AUTO, MatchBy.REQUEST])
    files = [Dataset(pools=[pool]) for pool in (here, there)]
    clean = compared(*files, match=match)
    assert clean.exit_code == 0, clean.incomplete_reasons
    assert clean.violations_total == 0
    held = _held(there.sequences[0])
    # Of a prompt that two requests computed, either copy stands for the other.
    kept = rng.sample(held, min(len(held), rng.randint(1, 5)))
    damage = _damaged(there.snapshot, kept, rng)
    report = compared(*files, match=match, max_violations=1000)
    assert {row.slot: set(row.columns) for row in report.violations} == damage
    [found] = report.findings
    assert (found.rule, found.slots) == ("KV402", sorted(damage))
