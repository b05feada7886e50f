"""GGUF files as such: values, tensors, shards, and files that are none."""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

from kvaudit.errors import BackendNotInstalled, FileUnreadable, ModelNotApplicable, SchemaMismatch
from kvaudit.importers.gguf_file import GgufModel

VALUES = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


def _write(path: Path, *, name: str = "a", stored: str = "F32") -> Path:
    kind = gguf.GGMLQuantizationType[stored]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_head_count_kv([2, 3])
    writer.add_tensor(name, gguf.quantize(VALUES, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("stored", "dtype", "error"),
    [
        ("F32", "float32", 0),
        ("F16", "float16", 1e-3),
        ("BF16", "bfloat16", 1e-2),
        ("Q8_0", "float32", 0.05),
    ],
)
def test_rows_are_numbers_whatever_they_are_stored_as(
    tmp_path: Path, stored: str, dtype: str, error: float
) -> None:
    tensor = GgufModel(_write(tmp_path / "a.gguf", stored=stored)).tensor("a")
    assert (tensor.shape, tensor.dtype) == ((4, 64), dtype)
    np.testing.assert_allclose(tensor.whole(), VALUES, atol=error)
    np.testing.assert_array_equal(tensor.read(1, 3), tensor.whole()[1:3])


def test_values_are_those_of_the_file(tmp_path: Path) -> None:
    model = GgufModel(_write(tmp_path / "a.gguf"))
    assert model.value("general.architecture") == "llama"
    assert model.value("llama.attention.head_count_kv") == [2, 3]
    assert model.value("llama.context_length") is None
    assert model.names == {"a"}
    with pytest.raises(SchemaMismatch):
        model.tensor("b")


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    for number, name in enumerate("ab", start=1):
        _write(tmp_path / f"m-{number:05}-of-00002.gguf", name=name)
    model = GgufModel(tmp_path / "m-00002-of-00002.gguf")
    assert model.names == {"a", "b"}
    (tmp_path / "m-00001-of-00002.gguf").unlink()
    with pytest.raises(FileUnreadable):
        GgufModel(tmp_path / "m-00002-of-00002.gguf")


@pytest.mark.parametrize("kept", [0, 3, 20, 100, -300])
def test_a_file_that_lost_its_end_is_refused(tmp_path: Path, kept: int) -> None:
    content = _write(tmp_path / "a.gguf").read_bytes()
    (tmp_path / "a.gguf").write_bytes(content[:kept])
    with pytest.raises(SchemaMismatch):
        GgufModel(tmp_path / "a.gguf")


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(bytes(1000))
    with pytest.raises(SchemaMismatch):
        GgufModel(tmp_path / "a.gguf")


def test_a_type_that_is_not_dequantised_is_not_applicable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(gguf, "dequantize", refuse)
    with pytest.raises(ModelNotApplicable):
        GgufModel(_write(tmp_path / "a.gguf")).tensor("a").whole()


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path / "a.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(BackendNotInstalled) as caught:
        GgufModel(path)
    assert "kvaudit[models]" in caught.value.hint
