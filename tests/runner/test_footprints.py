"""CASES.md 2: every footprint in its three columns, with exactly the listed rows."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kvaudit.constants import FailReason, RealKvHashMode
from kvaudit.core.report import Report, Verdict
from tests.helpers import corruptions
from tests.helpers.corruptions import PREV_HASH, REAL_KV_HASH, TOKEN
from tests.helpers.worlds import World, build, fixture_f, link

WORDS = {
    "chain": FailReason.VERIFY_CHAIN_HASH_MISMATCH,
    "position": FailReason.VERIFY_POSITION_MISMATCH,
    "real": FailReason.VERIFY_REAL_KV_HASH_MISMATCH,
    "token": FailReason.VERIFY_TOKEN_MISMATCH,
}
FOREIGN_PREV_HASH = link(0x1234, 77, 0)


def _alias(slots: list[int]) -> Callable[[RealKvHashMode], World]:
    def make(mode: RealKvHashMode) -> World:
        return (
            build(mode=mode)
            .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
            .request("B", tokens=[21, 22, 23, 24], slots=slots)
            .done()
        )

    return make


def _damaged(damage: corruptions.Corruption) -> Callable[[RealKvHashMode], World]:
    def make(mode: RealKvHashMode) -> World:
        world = fixture_f(mode=mode)
        damage(world)
        return world

    return make


def _late_writer(world: World) -> None:
    corruptions.overwrite_slot(world, 7, token=99, position=1, prev_hash=FOREIGN_PREV_HASH)


def _swa_map(mode: RealKvHashMode) -> World:
    world = fixture_f(mode=mode)
    world.request_of("A").slots[:2] = [0, 0]
    return world


T07 = "A0@2 chain+position(+2), A1@3 position(+2), A2@4 chain+position(-2), A3@5 position(-2)"
T07_JUDGED = (
    "A0@2 chain+position(+2)+token, A1@3 position(+2)+token, "
    "A2@4 chain+position(-2)+token, A3@5 position(-2)+token"
)
T12 = "B0@6 chain, B1@7 position(-1), B2@8 position(-2), B3@9 position(-3)"
T12_JUDGED = (
    "B0@6 chain+token, B1@7 position(-1)+token, B2@8 position(-2)+token, B3@9 position(-3)+token"
)
T26_REAL = "B0@6 chain+real, B1@7 position(-1)+real, B2@8 position(-2)+real, B3@9 position(-3)+real"
T26_JUDGED = (
    "B0@6 chain+real+token, B1@7 position(-1)+real+token, "
    "B2@8 position(-2)+real+token, B3@9 position(-3)+real+token"
)

# id: the world, then the rows without real data, with it, and with tokens judged too.
CASES = {
    "T00": (lambda mode: fixture_f(mode=mode), "", "", ""),
    "T01": (
        _alias([6, 7, 4, 9]),
        "A2@4 chain, A3@5 chain",
        "A2@4 chain, A3@5 chain",
        "A2@4 chain+token, A3@5 chain",
    ),
    "T02": (
        _alias([6, 4, 8, 9]),
        "A2@4 chain+position(-1), A3@5 chain",
        "A2@4 chain+position(-1), A3@5 chain",
        "A2@4 chain+position(-1)+token, A3@5 chain",
    ),
    "T03": (
        _damaged(lambda w: corruptions.overwrite_bytes(w, 7)),
        "",
        "B1@7 real",
        "B1@7 real",
    ),
    "T04": (
        _damaged(_late_writer),
        "B1@7 chain, B2@8 chain",
        "B1@7 chain, B2@8 chain",
        "B1@7 chain+token, B2@8 chain",
    ),
    "T05": (
        _damaged(lambda w: corruptions.shift_positions(w, "B", first=2, delta=1)),
        *["B2@8 position(+1), B3@9 position(+1)"] * 3,
    ),
    "T07": (_damaged(lambda w: corruptions.swap_pages(w, 1, 2)), T07, T07, T07_JUDGED),
    "T08": (
        _damaged(lambda w: corruptions.swap_pages(w, 1, 2, records=False)),
        "",
        *["A0@2 real, A1@3 real, A2@4 real, A3@5 real"] * 2,
    ),
    "T09": (
        _damaged(lambda w: corruptions.zero_slots(w, [8, 9])),
        *["B2@8 chain+position(-2), B3@9 position(-3)"] * 2,
        "B2@8 chain+position(-2)+token, B3@9 position(-3)+token",
    ),
    "T10": (
        _damaged(lambda w: corruptions.zero_slots(w, [8, 9], records=False)),
        "",
        *["B2@8 real, B3@9 real"] * 2,
    ),
    "T12": (_damaged(lambda w: corruptions.zero_slots(w, [6, 7, 8, 9])), T12, T12, T12_JUDGED),
    "T13": (
        _damaged(lambda w: corruptions.copy_chain(w, "B", "A")),
        "",
        "",
        "A0@2 token, A1@3 token, A2@4 token, A3@5 token",
    ),
    "T15": (_swa_map, "", "", ""),
    "T17": (
        _damaged(lambda w: corruptions.flip_bit(w, "kv.k.0", 7)),
        "",
        "B1@7 real",
        "B1@7 real",
    ),
    "T18-K1": (_damaged(lambda w: corruptions.flip_bit(w, "kv.k.1", 7)), "", "", ""),
    "T18-V0": (_damaged(lambda w: corruptions.flip_bit(w, "kv.v.0", 7)), "", "", ""),
    "T18-V1": (_damaged(lambda w: corruptions.flip_bit(w, "kv.v.1", 7)), "", "", ""),
    "T19": (
        _damaged(lambda w: corruptions.flip_record_bit(w, 7, TOKEN)),
        "B2@8 chain",
        "B2@8 chain",
        "B1@7 token, B2@8 chain",
    ),
    "T21": (
        _damaged(lambda w: corruptions.flip_record_bit(w, 7, PREV_HASH)),
        *["B1@7 chain, B2@8 chain"] * 3,
    ),
    "T22": (
        _damaged(lambda w: corruptions.flip_record_bit(w, 7, REAL_KV_HASH)),
        *["B1@7 real"] * 3,
    ),
    "T23": (
        _damaged(lambda w: corruptions.wrong_token(w, "B", position=1, token=99)),
        "",
        "",
        "B1@7 token",
    ),
    "T25": (_damaged(lambda w: corruptions.stamp_nan(w, 4)), "", "", ""),
    "T26": (
        _damaged(lambda w: corruptions.zero_slots(w, [6, 7, 8, 9], data=False)),
        T12,
        T26_REAL,
        T26_JUDGED,
    ),
    "T27": (
        _damaged(lambda w: corruptions.stamp_before_bytes(w, 7)),
        "",
        "B1@7 real",
        "B1@7 real",
    ),
}
COLUMNS = ("default", "real", "token")
# A row of Fixture F has the 16 bytes that PARTIAL reads, so both modes see the same damage.
JUDGED = [
    ("default", RealKvHashMode.NONE),
    ("real", RealKvHashMode.PARTIAL),
    ("real", RealKvHashMode.ALL),
    ("token", RealKvHashMode.PARTIAL),
    ("token", RealKvHashMode.ALL),
]


def footprint(report: Report) -> str:
    """The rows of a report in the notation of CASES.md."""
    rows = sorted(report.violations, key=lambda row: (row.request_ids, row.expected_position))
    return ", ".join(
        f"{row.request_ids[0]}{row.expected_position}@{row.slot} {_reasons(row)}" for row in rows
    )


def _reasons(row: object) -> str:
    words = []
    for word, bit in WORDS.items():
        if row.reasons & bit:
            delta = f"({row.position - row.expected_position:+d})" if word == "position" else ""
            words.append(word + delta)
    return "+".join(words)


@pytest.mark.parametrize(("column", "mode"), JUDGED)
@pytest.mark.parametrize("case", CASES)
def test_sequences_give_exactly_the_listed_rows(
    run, case: str, column: str, mode: RealKvHashMode
) -> None:
    make, *expected = CASES[case]
    world = make(mode)
    # Of the index rules KV103 alone runs: it looks at plans, and the rows are what is listed.
    report = run(world.dataset(tokens=column == "token"), select=("KV0", "KV103"))
    assert footprint(report) == expected[COLUMNS.index(column)]
    failed = bool(expected[COLUMNS.index(column)])
    assert report.verdict is (Verdict.VIOLATIONS if failed else Verdict.CLEAN)
    assert report.violations_total == len(report.violations)
    assert json.loads(json.dumps(report.to_dict()))["violations"]["total"] == len(report.violations)


@pytest.mark.parametrize(("column", "mode"), JUDGED)
@pytest.mark.parametrize("case", CASES)
def test_a_plan_gives_the_same_rows_as_the_sequences(
    run, case: str, column: str, mode: RealKvHashMode
) -> None:
    from kvaudit.core.dataset import AuditedPool, Dataset

    make, *expected = CASES[case]
    world = make(mode)
    plan = world.plan(check_tokens=column == "token")
    report = run(
        Dataset(pools=[AuditedPool(snapshot=world.snapshot(), plans=(plan,))]), select=("KV0",)
    )
    assert footprint(report) == expected[COLUMNS.index(column)]


def test_every_listed_case_is_here() -> None:
    numbers = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27]
    assert {name[:3] for name in CASES} == {f"T{number:02d}" for number in numbers}


def test_an_alias_is_found_from_the_index_alone(run) -> None:
    world = CASES["T01"][0](RealKvHashMode.NONE)
    (finding,) = run(world.dataset()).findings
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV101", [4], ["A", "B"])


def test_skipped_rows_of_a_stale_map_are_counted(run) -> None:
    covered = run(CASES["T15"][0](RealKvHashMode.NONE).dataset()).to_dict()["coverage"]["records"]
    assert covered["skipped_padding"] == 2
    assert covered["predecessor_unreachable"] == 1
    assert (covered["planned"], covered["checked"], covered["ratio"]) == (8, 6, 1.0)
