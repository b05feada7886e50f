"""The vectors of our own say what the reference does now, on the inputs that the code lists."""

from __future__ import annotations

import pytest

from tests.helpers.vectors import VECTORS
from tests.kernels.malformed_cases import CASES, pinned, rendered


@pytest.mark.parametrize("op", CASES)
def test_pinned_vector_file_is_what_the_reference_makes_of_the_cases(op):
    assert (VECTORS / f"malformed_{op}.json").read_text() == rendered(pinned(op))
