"""KV of a real model, computed at once and token by token: never equal, and right within 0.05."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.snapshot import Snapshot
from tests.helpers.comparing import compared
from tests.helpers.smollm2 import smollm2, smollm2_tokenizer

if TYPE_CHECKING:
    from transformers import DynamicCache

FIRST_SLOT = 16
TOLERANCE = 0.05
TEXT = "Once upon a time, in a village by the sea, there lived an old fisherman who went out"


def _dump(cache: DynamicCache, num_tokens: int) -> Snapshot:
    kv = {}
    for layer_idx, layer in enumerate(cache.layers):
        for half, tensor in (("k", layer.keys), ("v", layer.values)):
            rows = tensor[0].transpose(0, 1)[:num_tokens].flatten(1).contiguous().view(torch.uint8)
            name = f"kv.{half}.{layer_idx}"
            kv[name] = ArrayKvColumn(
                name=name, data=rows.numpy().copy(), read_bytes=rows.shape[1], dtype="bfloat16"
            )
    slots = np.arange(FIRST_SLOT, FIRST_SLOT + num_tokens)
    return Snapshot(slots=slots, num_slots=FIRST_SLOT + num_tokens, page_size=16, kv=kv)


@pytest.fixture(scope="module")
def computed() -> tuple[Snapshot, Snapshot]:
    """The same text: prefilled, and decoded one token after another."""
    model = smollm2()
    ids = smollm2_tokenizer()(TEXT, return_tensors="pt").input_ids
    with torch.no_grad():
        prefilled = model(ids, use_cache=True).past_key_values
        decoded = model.generate(
            ids[:, :1],
            attention_mask=torch.ones_like(ids[:, :1]),
            max_new_tokens=ids.shape[1] - 1,
            do_sample=False,
            prefix_allowed_tokens_fn=lambda _, seen: [int(ids[0, len(seen)])],
            return_dict_in_generate=True,
        ).past_key_values
    # The last token was given, and is not computed.
    num_tokens = ids.shape[1] - 1
    return _dump(prefilled, num_tokens), _dump(decoded, num_tokens)


def test_hardly_a_slot_is_equal_and_all_are_within_the_tolerance(
    computed: tuple[Snapshot, Snapshot],
) -> None:
    prefilled, decoded = computed
    exact = compared(prefilled, decoded)
    assert exact.violations_total > 0.9 * prefilled.num_rows
    report = compared(prefilled, decoded, tolerance=TOLERANCE)
    assert report.exit_code == 0
    assert report.coverage.families["bytes"].ratio == 1.0


def test_the_kv_of_another_token_is_outside_it_in_every_layer(
    computed: tuple[Snapshot, Snapshot],
) -> None:
    prefilled, decoded = computed
    for column in decoded.kv.values():
        column.data[[10, 11]] = column.data[[11, 10]]
    report = compared(prefilled, decoded, tolerance=TOLERANCE, max_violations=10)
    assert [row.slot for row in report.violations] == [FIRST_SLOT + 10, FIRST_SLOT + 11]
    assert all(len(row.columns) == len(decoded.kv) for row in report.violations)
