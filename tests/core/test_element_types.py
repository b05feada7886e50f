"""KV bytes as numbers: torch is the oracle of every code."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvaudit.core.element_types import decoded, element_type, encoded
from kvaudit.errors import ValuesInvalid

TYPES = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
WRITTEN = TYPES[:3]


@pytest.mark.parametrize("dtype", TYPES[1:])
def test_every_code_of_a_narrow_type_is_the_number_that_torch_reads(dtype: str) -> None:
    stored = torch.arange(256, dtype=torch.uint8)
    if element_type(dtype).itemsize == 2:
        stored = torch.arange(1 << 16).to(torch.uint16).view(torch.uint8)
    wanted = stored.view(getattr(torch, dtype)).to(torch.float32).numpy()
    found = decoded(stored.numpy().reshape(1, -1), dtype)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[0], wanted)


@pytest.mark.parametrize("dtype", WRITTEN)
def test_numbers_are_rounded_as_torch_rounds_them(dtype: str) -> None:
    generator = np.random.default_rng(1)
    words = generator.integers(0, 1 << 32, size=200_000, dtype=np.uint64).astype(np.uint32)
    ties = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)) | np.uint32(0x8000)
    values = np.concatenate((words, ties)).view(np.float32)
    found = decoded(encoded(values.reshape(1, -1), dtype), dtype)[0]
    wanted = torch.from_numpy(values).to(getattr(torch, dtype)).to(torch.float32).numpy()
    np.testing.assert_array_equal(found, wanted)


def test_a_type_may_carry_the_name_of_its_library() -> None:
    assert element_type("torch.bfloat16") is element_type("bfloat16")


@pytest.mark.parametrize(("dtype", "bits"), [*zip(TYPES, [24, 11, 8, 4, 3], strict=True)])
def test_the_significand_has_the_bits_that_the_type_says(dtype: str, bits: int) -> None:
    kind = element_type(dtype)
    assert kind.significant_bits == bits
    assert torch.finfo(getattr(torch, dtype)).eps == 2.0 ** (1 - bits)


@pytest.mark.parametrize("dtype", ["int8", "", "float64"])
def test_a_type_that_is_not_known_is_refused(dtype: str) -> None:
    assert element_type(dtype) is None
    with pytest.raises(ValuesInvalid):
        decoded(np.zeros((1, 8), dtype=np.uint8), dtype)


def test_rows_with_a_part_of_an_element_are_refused() -> None:
    with pytest.raises(ValuesInvalid):
        decoded(np.zeros((2, 7), dtype=np.uint8), "bfloat16")


def test_rows_are_not_written_in_one_byte_floats() -> None:
    with pytest.raises(ValuesInvalid):
        encoded(np.zeros((1, 8), dtype=np.float32), "float8_e5m2")
