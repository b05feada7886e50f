"""Records as entries: an EntrySource that expects what the records say of each other."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kvaudit.constants import NO_EXPECTED_TOKEN, LaunchTag
from kvaudit.core import chain_entries
from kvaudit.core.chain_entries import ChainCounters, ChainEntries

TAG = LaunchTag.TAIL_V_SWA


def _entries() -> ChainEntries:
    return ChainEntries(
        tag=TAG,
        slot_indices=np.array([2, 3, 7, 9]),
        prev_slot_indices=np.array([-1, 2, 0, 7]),
        expected_positions=np.array([0, 1, 40, 41]),
    )


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_blocks_of_any_size_hold_all_entries_in_slot_order(monkeypatch, size: int) -> None:
    monkeypatch.setattr(chain_entries, "MAX_BLOCK_ENTRIES", size)
    blocks = list(_entries().blocks())
    assert len(blocks) == -(-4 // size)
    for name, wanted in {
        "entry_indices": [0, 1, 2, 3],
        "slot_indices": [2, 3, 7, 9],
        "prev_slot_indices": [-1, 2, 0, 7],
        "expected_positions": [0, 1, 40, 41],
        "expected_tokens": [NO_EXPECTED_TOKEN] * 4,
    }.items():
        assert np.concatenate([getattr(block, name) for block in blocks]).tolist() == wanted
    slots = np.concatenate(list(_entries().slot_blocks()))
    assert slots.tolist() == [2, 3, 7, 9]


def test_they_are_of_one_launch_and_of_nobody() -> None:
    entries = _entries()
    assert (entries.tags, entries.step, entries.num_entries) == ((TAG,), None, 4)
    assert (entries.enabled, entries.check_expected_token) == (True, False)
    assert entries.request_ids_of(np.array([3, 0])) == [None, None]
    assert entries.states_of(np.array([3, 0, 1])) == [None] * 3


def test_counters_are_json_under_their_names() -> None:
    counters = ChainCounters(
        tag=TAG.name, records=9, heads=2, orphans=1, forks=1, chains=4, duplicates=0
    )
    assert json.loads(json.dumps(counters.to_dict())) == {
        "tag": "TAIL_V_SWA",
        "records": 9,
        "heads": 2,
        "orphans": 1,
        "forks": 1,
        "chains": 4,
        "duplicates": 0,
    }
