"""What a rule says of failed rows."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import FailReason
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.rule import Rule


def test_an_explanation_claims_nothing_that_it_does_not_name() -> None:
    rule = Rule(id="KV999", name="some-rule", severity=Severity.ERROR)
    explanation = Explanation(rule=rule, cause=7, summary="so", roots=np.array([7]))
    assert (len(explanation.failed), explanation.reasons) == (0, FailReason(0))
    assert (explanation.columns, explanation.is_alternative) == ({}, False)
