"""Which families are known; `test_model_weights.py` proves each of them."""

from __future__ import annotations

import pytest

from kvaudit.core.model_families import FAMILIES, family_of
from kvaudit.errors import ModelNotApplicable
from tests.helpers.model_families import CASES


def test_every_family_is_proved_against_its_real_class() -> None:
    import transformers

    proved = {
        getattr(transformers, case.config or f"{case.architecture}Config").model_type
        for case in CASES.values()
    }
    assert proved == FAMILIES.keys()


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("gpt2", "learned absolute positions"),
        ("mamba", "no attention layer"),
        ("deepseek_v3", "MLA"),
        ("bloom", "ALiBi"),
        ("a-new-one", "not known"),
        ("", "not known"),
    ],
)
def test_another_family_is_not_applicable_and_why(model_type: str, reason: str) -> None:
    with pytest.raises(ModelNotApplicable, match=reason) as caught:
        family_of(model_type, path="config.json")
    assert (caught.value.path, bool(caught.value.hint)) == ("config.json", True)
