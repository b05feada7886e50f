"""The front door: any kind, any damage."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

from kvaudit import errors
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.plan import PlanDump
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import InputError, NotArrow
from kvaudit.formats import arrow_file
from kvaudit.formats.dataset import open_dataset
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.reader import read_file, read_with_notes
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.formats.state_writer import write_state
from tests.helpers.arrow_files import (
    canary_state,
    full_snapshot,
    plan,
    plan_columns,
    recorded_steps,
    sequences,
    sequences_columns,
    snapshot,
    snapshot_columns,
    state_columns,
    trace_columns,
    write_by_hand,
    write_trace,
)
from tests.helpers.command_line import python


def test_the_kind_in_the_file_decides_and_not_its_name(tmp_path):
    write_snapshot(tmp_path / "a.plan.arrow", snapshot())
    write_sequences(tmp_path / "b.snapshot.arrow", sequences())
    write_plan(tmp_path / "c", plan())
    write_state(tmp_path / "d.plan.arrow", canary_state())
    assert isinstance(read_file(tmp_path / "d.plan.arrow"), CanaryState)
    assert isinstance(read_file(tmp_path / "a.plan.arrow"), Snapshot)
    assert isinstance(read_file(str(tmp_path / "b.snapshot.arrow")), Sequences)
    assert isinstance(read_file(tmp_path / "c"), PlanDump)


def test_the_report_hears_of_kind_key_and_missing_digests(tmp_path):
    path = write_by_hand(
        tmp_path / "a.arrow",
        "sequences",
        sequences_columns(mine=pa.array([1, 2])),
        metadata={"kvaudit.rank": "3"},
    )
    found = read_with_notes(path).input_file
    assert (found.path, found.kind, found.key, found.page_size) == (
        path,
        "sequences",
        {"rank": 3},
        None,
    )
    assert found.notes == ["file not checksummed", "columns not of the format: mine"]


def missing(folder):
    return folder / "missing.arrow"


def not_arrow(folder):
    (folder / "a.arrow").write_bytes(b"PK\3\4" + bytes(100))
    return folder / "a.arrow"


def wrong_type(folder):
    columns = {"slot": pa.array([1.0])}
    return write_by_hand(folder / "a.arrow", "snapshot", columns)


def newer(folder):
    metadata = {"kvaudit.format": "2"}
    return write_by_hand(folder / "a.arrow", "snapshot", snapshot_columns(), metadata=metadata)


def huge_slot(folder):
    return write_by_hand(folder / "a.arrow", "snapshot", {"slot": pa.array([1 << 40])})


def null(folder):
    return write_by_hand(folder / "a.arrow", "snapshot", {"slot": pa.array([1, None])})


def flipped(folder):
    path = folder / "a.arrow"
    wanted = snapshot()
    write_snapshot(path, wanted)
    content = bytearray(path.read_bytes())
    content[content.index(wanted.slots.tobytes())] ^= 1
    path.write_bytes(content)
    return path


def twins(folder):
    for name in ("a.arrow", "b.arrow"):
        write_snapshot(folder / name, snapshot())
    return folder


HOSTILE = {
    errors.FileUnreadable: missing,
    errors.NotArrow: not_arrow,
    errors.SchemaMismatch: wrong_type,
    errors.FormatVersionUnsupported: newer,
    errors.LimitExceeded: huge_slot,
    errors.ValuesInvalid: null,
    errors.FileCorrupt: flipped,
    errors.SnapshotInconsistent: twins,
}


# What is no Arrow file that is read here: a file that is written, and the weights of a model.
ELSEWHERE = {errors.FileUnwritable, errors.ModelNotApplicable}


def test_every_class_of_input_error_has_a_hostile_file():
    assert set(HOSTILE) == set(InputError.__subclasses__()) - ELSEWHERE


@pytest.mark.parametrize("error_class", HOSTILE, ids=lambda error_class: error_class.__name__)
def test_each_hostile_file_gets_its_own_class_with_path_and_hint(tmp_path, error_class):
    path = HOSTILE[error_class](tmp_path)
    with pytest.raises(InputError) as caught:
        open_dataset([path])
    assert type(caught.value) is error_class
    assert str(tmp_path) in str(caught.value)
    assert caught.value.hint
    assert caught.value.message[0] == caught.value.message[0].lower()


# Primes, so that no field of a header is always or never hit. Stride 1 was run by hand.
STRIDES = {"full": 97, "snapshot": 41, "sequences": 37, "plan": 53, "trace": 89, "state": 53}


@pytest.mark.parametrize("name", STRIDES)
def test_no_damage_crashes_or_passes_for_something_else(tmp_path, name):
    """With digests every copy is refused, or gives exactly what was written."""
    path = tmp_path / "a.arrow"
    if name == "full":
        write_snapshot(path, full_snapshot(), batch_rows=4)
    elif name == "snapshot":
        write_snapshot(path, snapshot(4, 8))
    elif name == "sequences":
        write_sequences(path, sequences())
    elif name == "trace":
        write_trace(path, recorded_steps())
    elif name == "state":
        write_state(path, canary_state())
    else:
        write_plan(path, plan())
    done = python("-m", "tests.helpers.damaged_files", path, STRIDES[name], "same")
    assert done.returncode == 0, (done.returncode, done.stdout[-300:], done.stderr[-3000:])
    assert "refused" in done.stdout


@pytest.mark.parametrize("kind", ["snapshot", "sequences", "variants", "plan", "trace", "state"])
def test_no_damage_crashes_the_reader_of_files_without_digests(tmp_path, kind):
    path = tmp_path / "a.arrow"
    if kind == "snapshot":
        columns = snapshot_columns(
            **{
                "kv.k.0": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
                "canary.k.tail": pa.array([[1, 2, 3, 4]] * 3, pa.list_(pa.int64(), 4)),
                "alloc.owner": pa.array(["a", None, "a"]).dictionary_encode(),
                "alloc.state": pa.array(["live", "free", None], pa.large_string()),
            }
        )
    elif kind == "sequences":
        columns = sequences_columns(kv_len=pa.array([1, 2]), extra_key=pa.array([None, "x"]))
    elif kind == "variants":
        columns = sequences_columns(
            request_id=pa.array(["a text that is not inline", "b"], pa.string_view()),
            tokens=pa.array([[11, 12], [21]], pa.large_list_view(pa.int64())),
            slots=pa.array([[4], [5, 6]], pa.list_view(pa.int64())),
            extra_key=pa.array(["x", "x"]).dictionary_encode(),
        )
    elif kind == "trace":
        columns = trace_columns(table_request_index=pa.array([[2], None], pa.list_(pa.int64())))
        columns |= {"table_positions": pa.array([[3], None], pa.list_(pa.int64()))}
        columns |= {"table_lens": pa.array([[1], None], pa.list_(pa.int64()))}
        columns |= {"table_slots": pa.array([[8], None], pa.list_(pa.int64()))}
    elif kind == "state":
        columns = state_columns()
    else:
        columns = plan_columns(tags=pa.array([["HEAD_K_FULL"]]))
    file_kind = {"variants": "sequences", "trace": "plan"}.get(kind, kind)
    write_by_hand(path, file_kind, columns)
    done = python("-m", "tests.helpers.damaged_files", path, 37, "any")
    assert done.returncode == 0, (done.returncode, done.stdout[-300:], done.stderr[-3000:])


def test_offsets_that_point_outside_their_buffer_are_refused(tmp_path):
    """Arrow opens such a file and hands out the batch: only its full validation sees it."""
    path = tmp_path / "a.arrow"
    write_by_hand(path, "sequences", sequences_columns(request_id=pa.array(["ab", "cdef"])))
    right, forged = (np.array([0, 2, end], dtype=np.int32).tobytes() for end in (6, 2_000_000))
    assert path.read_bytes().count(right) == 1
    path.write_bytes(path.read_bytes().replace(right, forged))
    with pytest.raises(NotArrow) as caught:
        read_file(path)
    assert caught.value.column == "request_id"


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / "a.arrow"
    write_by_hand(path, "sequences", sequences_columns(request_id=pa.array(["QQQQ", "b"])))
    path.write_bytes(path.read_bytes().replace(b"QQQQ", b"\xff\xfe\xff\xfe"))
    with pytest.raises(NotArrow) as caught:
        read_file(path)
    assert caught.value.column == "request_id"


def test_an_index_past_its_dictionary_is_refused(tmp_path):
    path = tmp_path / "a.arrow"
    indices = np.array([1, 0, 1, 0, 1, 0, 1], dtype=np.int32)
    owner = pa.DictionaryArray.from_arrays(pa.array(indices), ["a", "b"])
    columns = {"slot": pa.array(range(7)), "alloc.owner": owner}
    write_by_hand(path, "snapshot", columns)
    content = path.read_bytes()
    assert indices.tobytes() in content
    path.write_bytes(content.replace(indices.tobytes(), struct.pack("<7i", *[9] * 7)))
    with pytest.raises(NotArrow) as caught:
        read_file(path)
    assert caught.value.column == "alloc.owner"


def test_a_compressed_file_is_refused_before_it_expands(tmp_path, monkeypatch):
    """12 kB of zstd may hold 400 MB: no batch of it is ever handed to pyarrow."""

    def refuse(*_args):
        raise AssertionError("pyarrow saw a compressed file")

    zeros = pa.Array.from_buffers(pa.binary(1 << 16), 3, [None, pa.py_buffer(bytes(3 << 16))])
    path = write_by_hand(
        tmp_path / "a.arrow",
        "snapshot",
        snapshot_columns(**{"kv.k.0": zeros}),
        options=pa.ipc.IpcWriteOptions(compression="zstd"),
    )
    monkeypatch.setattr(arrow_file.pa.ipc, "open_file", refuse)
    with pytest.raises(NotArrow, match="compressed") as caught:
        read_file(path)
    assert "uncompressed" in caught.value.hint


def test_the_way_to_rewrite_a_compressed_file_works(tmp_path):
    from pyarrow import feather

    path = write_by_hand(
        tmp_path / "a.arrow",
        "sequences",
        sequences_columns(),
        options=pa.ipc.IpcWriteOptions(compression="lz4"),
    )
    table = feather.read_table(path)
    feather.write_feather(table, str(tmp_path / "b.arrow"), compression="uncompressed")
    assert read_file(tmp_path / "b.arrow").request_ids == ["a", "b"]
