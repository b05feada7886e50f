"""KV002 launch-disabled: a plan did not fit, and its step went unchecked."""

from __future__ import annotations

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more

RULE = Rule(id="KV002", name="launch-disabled", severity=Severity.WARNING)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Name the launches whose plan had enable 0: the engine counted a run and checked nothing."""
    disabled = [launch for launch in evidence.launches if not launch.plan.enable]
    if not disabled:
        return []
    examples = tuple(
        {
            "step": launch.step,
            "tags": None if launch.tags is None else [tag.name for tag in launch.tags],
            "capacity": launch.plan.capacity,
        }
        for launch in disabled[:MAX_EXAMPLES]
    )
    first = examples[0]
    summary = (
        f"the plan of step {first['step']} was disabled: more entries were asked for than its capacity "
        f"of {first['capacity']}, so nothing of it was checked{and_more(len(disabled), 'plan')}"
    )
    facts = {"num_plans": len(disabled)}
    return [RULE.finding(evidence, summary, hits=Hits(examples=examples), facts=facts)]
