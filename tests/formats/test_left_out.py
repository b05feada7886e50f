"""Which pools a file takes along that cannot be used."""

from __future__ import annotations

import pytest

from kvaudit.errors import FileCorrupt, InputError
from kvaudit.formats.left_out import LeftOut, kind_by_name, lost_pools
from kvaudit.formats.schema import FileKind

SNAPSHOTS = ["d/r0.snapshot.arrow", "d/r1.snapshot.arrow", "e/r0.snapshot.arrow"]


def left_out(path, *, kind=None, owners=()):
    error = FileCorrupt("it changed", path=path)
    kind = kind_by_name(path) if kind is None else kind
    return LeftOut(path=path, kind=kind, owners=frozenset(owners), error=error)


def test_a_conventional_name_tells_the_kind():
    assert kind_by_name("d/r0.full.sequences.arrow") is FileKind.SEQUENCES
    assert kind_by_name("sequences.arrow") is None
    assert kind_by_name("x.parquet") is None


def test_a_snapshot_takes_no_other_pool_along():
    assert lost_pools([left_out("d/x.snapshot.arrow"), left_out("d/y.arrow")], SNAPSHOTS) == []


@pytest.mark.parametrize("kind", ["sequences", "plan"])
def test_an_expectation_takes_the_pool_of_its_name_along(kind):
    path = f"d/r0.{kind}.arrow"
    (lost,) = lost_pools([left_out(path)], SNAPSHOTS)
    assert (lost.path, lost.kind) == ("d/r0.snapshot.arrow", FileKind.SNAPSHOT)
    assert lost.error.path == path
    assert lost.input_file().notes == (f"not audited: {path}: it changed",)


def test_an_expectation_takes_along_those_that_name_it():
    file = left_out("d/shared.arrow", kind=FileKind.PLAN, owners=SNAPSHOTS[1:])
    assert [lost.path for lost in lost_pools([file], SNAPSHOTS)] == SNAPSHOTS[1:]


def test_an_expectation_of_an_unknown_pool_may_be_any_ones():
    with pytest.raises(InputError) as caught:
        lost_pools([left_out("d/all.sequences.arrow")], SNAPSHOTS)
    assert caught.value.path == "d/all.sequences.arrow"


def test_a_pool_that_is_left_out_already_is_not_lost_again():
    both = [left_out("d/r2.snapshot.arrow"), left_out("d/r2.sequences.arrow")]
    assert lost_pools(both, SNAPSHOTS) == []


def test_the_report_says_of_a_file_what_is_wrong_with_it():
    file = left_out("d/x.arrow").input_file()
    assert (file.path, file.kind, file.notes) == (
        "d/x.arrow",
        "unknown",
        ("not audited: it changed",),
    )
