"""safetensors without their library's types, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kvaudit.errors import FileUnreadable, LimitExceeded, ModelNotApplicable, SchemaMismatch
from kvaudit.importers import safetensors_model
from kvaudit.importers.safetensors_model import INDEX_NAME, SafetensorsModel

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def _write(path: Path, header: Any, content: bytes = b"") -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


def _entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16], **changes}}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_tensors_of_every_type_are_read_as_numbers(tmp_path: Path, dtype: torch.dtype) -> None:
    values = {"a": torch.randn(5, 3, 2).to(dtype), "b": torch.randn(4).to(dtype)}
    save_file(values, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model = SafetensorsModel(tmp_path)
    assert model.names == {"a", "b"}
    for name, wanted in values.items():
        tensor = model.tensor(name)
        assert (tensor.shape, tensor.dtype) == (wanted.shape, str(dtype).removeprefix("torch."))
        np.testing.assert_array_equal(tensor.whole(), wanted.float().numpy())
        np.testing.assert_array_equal(tensor.read(1, 3), wanted[1:3].float().numpy())


def test_a_single_number_is_a_tensor_of_one_row(tmp_path: Path) -> None:
    save_file({"a": torch.tensor(2.5)}, tmp_path / "model.safetensors")
    assert SafetensorsModel(tmp_path).tensor("a").whole().tolist() == [2.5]


def test_an_index_says_which_shard_has_a_tensor_and_others_stay_closed(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "one.safetensors")
    index = {"weight_map": {"a": "one.safetensors", "b": "absent.safetensors"}}
    (tmp_path / INDEX_NAME).write_text(json.dumps(index))
    model = SafetensorsModel(tmp_path)
    assert model.tensor("a").whole().tolist() == [1, 1]
    with pytest.raises(SchemaMismatch):
        model.tensor("b")


@pytest.mark.parametrize(
    "index", [{}, {"weight_map": []}, {"weight_map": {"a": "../x"}}, {"weight_map": {"a": 1}}]
)
def test_an_index_that_names_no_files_of_its_folder_is_refused(
    tmp_path: Path, index: dict[str, Any]
) -> None:
    (tmp_path / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(SchemaMismatch):
        SafetensorsModel(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadable) as caught:
        SafetensorsModel(tmp_path)
    assert caught.value.hint


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"{",
        {"a": []},
        _entry(shape="no"),
        _entry(shape=[2, -2]),
        _entry(shape=[3, 2]),
        _entry(data_offsets=[0]),
        _entry(data_offsets=[16, 0]),
        _entry(data_offsets=[0, 999]),
        _entry(data_offsets=[-8, 8]),
    ],
    ids=str,
)
def test_a_damaged_file_is_refused(tmp_path: Path, header: Any) -> None:
    _write(tmp_path / "model.safetensors", header, bytes(16))
    with pytest.raises(SchemaMismatch):
        SafetensorsModel(tmp_path).tensor("a")


@pytest.mark.parametrize("content", [b"", b"1234567", (1 << 40).to_bytes(8, "little")])
def test_a_file_without_a_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises((SchemaMismatch, LimitExceeded)):
        SafetensorsModel(tmp_path)


def test_a_header_has_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / "model.safetensors", _entry(), bytes(16))
    monkeypatch.setattr(safetensors_model, "MAX_HEADER_BYTES", 8)
    with pytest.raises(LimitExceeded):
        SafetensorsModel(tmp_path)


def test_quantised_weights_are_not_applicable(tmp_path: Path) -> None:
    _write(tmp_path / "model.safetensors", _entry(dtype="I32"), bytes(16))
    with pytest.raises(ModelNotApplicable, match="quantised"):
        SafetensorsModel(tmp_path).tensor("a")
