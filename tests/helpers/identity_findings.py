"""What an audit finds in a pool without stamps, by the model's table unless said otherwise."""

from __future__ import annotations

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.diagnosis.held_homes import HeldHomes
from kvaudit.kernels.distance.numba_cpu import launch_distance
from kvaudit.runner.expectations import expectations_of
from kvaudit.runner.identity.identity_pass import IdentityPass
from tests.helpers.diagnosing import report_of
from tests.helpers.layer0_worlds import Layer0World


def identity_findings(world: Layer0World, **options: object) -> list[Finding]:
    """The findings of an audit but those on coverage."""
    report = report_of(world.dataset(), **({"layer0": world.model.table()} | options))
    return [finding for finding in report.findings if not finding.rule.startswith("KV0")]


def identity_finding(world: Layer0World, **options: object) -> Finding:
    """The one finding that there is."""
    findings = identity_findings(world, **options)
    assert len(findings) == 1, [(found.rule, found.summary) for found in findings]
    return findings[0]


def judged_evidence(world: Layer0World, **options: object) -> PoolEvidence:
    """A pool as the rules see it once its layer 0 was judged."""
    pool = world.pool()
    expected = expectations_of(pool, ALL_ENTRIES)
    fields = {
        "snapshot": pool.snapshot,
        "sequences": expected.sequences,
        "sources": expected.sources,
    }
    chosen = AuditOptions(**({"layer0": world.model.table()} | options))
    result = IdentityPass(
        evidence=PoolEvidence(**fields), options=chosen, launcher=lambda: launch_distance
    ).run()
    return PoolEvidence(**fields, identity=result.evidence)


def homes_of(world: Layer0World, **options: object) -> HeldHomes:
    """The wrong rows of a world in runs, with the claims that their content fits."""
    evidence = judged_evidence(world, **options)
    assert evidence.identity is not None
    return HeldHomes(evidence=evidence, identity=evidence.identity)
