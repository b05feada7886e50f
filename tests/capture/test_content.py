"""Digests of all layers with the bytes of layer 0: what is dumped, and that an audit takes both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kvaudit import api
from kvaudit.capture import Recorder, dump
from kvaudit.capture.content import columns_with_bytes
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.report import Verdict
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import ConfigError, SnapshotInconsistent
from kvaudit.formats.reader import read_file
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.auditing import audited, bad_columns, bad_slots
from tests.helpers.replays import record_toy
from tests.helpers.toy_engine import PAGE_SIZE, ToyEngine

LAYER_0 = ["kv.k.0", "kv.v.0"]
REQUESTS = {
    "page_size": PAGE_SIZE,
    "page_tables": [[3, 1], [3, 5]],
    "kv_lens": [6, 7],
    "tokens": [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 8, 9, 10, 11]],
}
on_a_device = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_device)])


def pool(device: str = "cpu", *, num_layers: int = 3) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    shape = (6, PAGE_SIZE, 2, 8)
    return [
        tuple(
            torch.randn(shape, generator=generator).to(torch.bfloat16).to(device) for _ in range(2)
        )
        for _ in range(num_layers)
    ]


def dumped(path: Path, kv: object, content: str, **asked: object) -> Snapshot:
    asked = {"layout": "page slot head dim", **REQUESTS, **asked}
    return read_file(str(dump(path, kv=kv, content=content, **asked)[0]))


@DEVICES
def test_layer_0_is_there_in_bytes_and_every_layer_in_digests(tmp_path: Path, device: str) -> None:
    both, whole, digests = (
        dumped(tmp_path / content, pool(device), content)
        for content in ("digests+layer0", "bytes", "digests")
    )
    assert list(both.kv) == LAYER_0
    for name, column in both.kv.items():
        assert column.dtype == "bfloat16"
        rows = column.read_rows(0, both.num_rows)
        np.testing.assert_array_equal(rows, whole.kv[name].read_rows(0, both.num_rows))
    assert list(both.digests) == list(digests.digests) == list(whole.kv)
    for name, column in both.digests.items():
        np.testing.assert_array_equal(column.read(), digests.digests[name].read())


def test_a_fused_row_is_layer_0_of_its_pool(tmp_path: Path) -> None:
    fused = [torch.arange(6.0 * PAGE_SIZE * 8).reshape(6, PAGE_SIZE, 8) for _ in range(2)]
    snapshot = dumped(tmp_path / "full", fused, "digests+layer0", layout="page slot dim")
    assert list(snapshot.kv) == ["kv.kv.0"]
    assert list(snapshot.digests) == ["kv.kv.0", "kv.kv.1"]


def test_a_later_rank_of_a_pipeline_has_no_layer_0_and_dumps_digests(tmp_path: Path) -> None:
    later = {16 + layer: pair for layer, pair in enumerate(pool())}
    snapshot = dumped(tmp_path / "full", later, "digests+layer0")
    assert not snapshot.kv
    assert next(iter(snapshot.digests)) == "kv.k.16"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"layers": [1, 2]}, "layers"),
        ({"digest_grain": "page"}, "digest_grain"),
    ],
)
def test_what_leaves_layer_0_out_is_refused(tmp_path: Path, arguments: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}: "):
        dumped(tmp_path / "full", pool(), "digests+layer0", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_side_buffers_are_of_no_layer() -> None:
    data = np.zeros((2, 8), np.uint8)
    columns = {
        name: ArrayKvColumn(name=name, data=data, read_bytes=8)
        for name in ("kv.k.0", "kv.k.10", "kv.side.scales")
    }
    assert list(columns_with_bytes(columns, "digests+layer0")) == ["kv.k.0"]
    assert list(columns_with_bytes(columns, "bytes")) == list(columns)
    assert columns_with_bytes(columns, "digests") == {}


def recorded_run(content: str, device: str = "cpu") -> ToyEngine:
    """One request that runs, and one whose slots were given away."""
    engine = ToyEngine(Recorder(content=content), device=device)
    engine.join("gone", [1, 2, 3])
    engine.step()
    engine.leave("gone")
    engine.join("here", [21, 22, 23, 24, 25])
    engine.step()
    return engine


@DEVICES
@pytest.mark.parametrize("content", ["bytes", "digests+layer0"])
def test_a_recorder_dumps_both_also_of_what_was_given_away(
    tmp_path: Path, content: str, device: str
) -> None:
    engine = recorded_run(content, device)
    files = engine.recorder.dump(tmp_path, content="digests+layer0")[::2]
    assert len(files) == 2
    for path in files:
        snapshot = read_file(str(path))
        assert list(snapshot.kv) == LAYER_0
        assert sorted(snapshot.digests) == sorted(snapshot.stamped)
    report = audited(tmp_path)
    assert report.verdict is Verdict.CLEAN


def test_a_recorder_of_layer_0_gives_digests_alone_where_they_are_asked_for(tmp_path: Path) -> None:
    engine = recorded_run("digests+layer0")
    for path in engine.recorder.dump(tmp_path, content="digests")[::2]:
        snapshot = read_file(str(path))
        assert not snapshot.kv
        assert len(snapshot.digests) == 4
    assert audited(tmp_path).verdict is Verdict.CLEAN


@pytest.mark.parametrize("layer", [0, 1])
def test_a_flipped_bit_is_found_in_a_layer_of_bytes_and_in_one_of_digests(
    tmp_path: Path, layer: int
) -> None:
    engine = recorded_run("digests+layer0")
    slot = engine.slots("here", 5)[3]
    tensor = engine.kv[layer][1].view(torch.int16)
    tensor[slot // PAGE_SIZE, slot % PAGE_SIZE, 1, 2] ^= 1 << 4
    engine.recorder.dump(tmp_path)
    report = audited(tmp_path)
    assert bad_slots(report) == {slot}
    assert bad_columns(report) == {f"kv.v.{layer}"}
    (finding,) = report.findings
    assert finding.rule == ("KV301" if layer else "KV304")
    assert finding.settled_by.startswith("the KV bytes: ") == bool(layer)


def contradicting(tmp_path: Path, *, at: str) -> Path:
    """A dump in which one digest of layer 0 is not that of the bytes beside it."""
    path = tmp_path / "full.snapshot.arrow"
    snapshot = dumped(tmp_path / "full", pool(), "digests+layer0", at=at)
    wrong = snapshot.digests["kv.v.0"].read().copy()
    wrong[2] += 1
    digests = {**snapshot.digests, "kv.v.0": ArrayColumn(name="digest.v.0", values=wrong)}
    write_snapshot(path, replace(snapshot, digests=digests))
    return path


def test_a_digest_that_is_not_that_of_the_bytes_is_said(tmp_path: Path) -> None:
    path = contradicting(tmp_path, at="step_end")
    with pytest.raises(SnapshotInconsistent) as refused:
        audited(path)
    assert (refused.value.column, refused.value.row) == ("digest.v.0", 2)


def test_in_mid_step_a_forward_may_write_between_the_copy_and_the_hash(tmp_path: Path) -> None:
    path = contradicting(tmp_path, at="mid_step")
    assert audited(path).findings


@pytest.mark.parametrize("layer", [0, 1])
def test_a_run_between_such_snapshots_replays_and_a_changed_slot_is_named(
    tmp_path: Path, layer: int
) -> None:
    record_toy(tmp_path / "clean", num_steps=8, digests_every=3, content="digests+layer0")
    assert api.replay(api.open_run(tmp_path / "clean")).verdict is Verdict.CLEAN

    def flip(engine: ToyEngine) -> None:
        if engine.recorder.step == 6:
            slot = next(iter(engine.tables.values()))[0] * PAGE_SIZE
            engine.kv[layer][0].view(torch.int16)[slot // PAGE_SIZE, 0, 1, 2] ^= 1 << 4

    folder = tmp_path / "flipped"
    record_toy(folder, num_steps=8, digests_every=3, content="digests+layer0", on_step=flip)
    report = api.replay(api.open_run(folder))
    assert report.verdict is Verdict.VIOLATIONS
    assert bad_columns(report) == {f"kv.k.{layer}"}
