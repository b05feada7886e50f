"""The tensors of a folder of safetensors files, mapped: no torch, and bfloat16 as it is.

The safetensors package gives numpy no bfloat16, so the header, which is JSON, is read here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import decoded, element_type
from kvaudit.errors import FileUnreadable, LimitExceeded, ModelNotApplicable, SchemaMismatch
from kvaudit.importers.json_file import read_json
from kvaudit.importers.weight_tensor import WeightTensor

INDEX_NAME: Final = "model.safetensors.index.json"
# The cap of the format's own library.
MAX_HEADER_BYTES: Final = 100_000_000
_LENGTH_BYTES: Final = 8
_TYPES: Final = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
_HINT: Final = "download the model again"


class SafetensorsModel:
    """The tensors of one model, by name, in one file or in shards; a shard is opened when asked for.

    Args:
        folder: where the files lie.

    Raises:
        FileUnreadable: there is no safetensors file.
        SchemaMismatch: the index is none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, _SafetensorsFile] = {}
        self._shards = self._indexed() if (folder / INDEX_NAME).is_file() else self._listed()

    @property
    def names(self) -> frozenset[str]:
        """The names of all tensors."""
        return frozenset(self._shards)

    def tensor(self, name: str) -> WeightTensor:
        """One tensor.

        Raises:
            FileUnreadable: its shard cannot be read.
            SchemaMismatch: its shard is no safetensors file, or does not have it.
        """
        return self._file(self._shards[name]).tensor(name)

    def _file(self, name: str) -> _SafetensorsFile:
        if name not in self._files:
            self._files[name] = _SafetensorsFile(self._folder / name)
        return self._files[name]

    def _indexed(self) -> dict[str, str]:
        path = self._folder / INDEX_NAME
        shards = read_json(path).get("weight_map")
        if not isinstance(shards, dict) or not all(
            isinstance(name, str) and Path(name).name == name for name in shards.values()
        ):
            raise SchemaMismatch(
                "weight_map names no file of this folder for each tensor",
                path=str(path),
                hint=_HINT,
            )
        return shards

    def _listed(self) -> dict[str, str]:
        names = sorted(path.name for path in self._folder.glob("*.safetensors"))
        if not names:
            raise FileUnreadable(
                "there is no .safetensors file in the folder",
                path=str(self._folder),
                hint="give the folder of a model, or a .gguf file",
            )
        return {tensor: name for name in names for tensor in self._file(name).names}


class _SafetensorsFile:
    """One file, mapped read-only, its header proven against its size."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._data = self._map(path)
        length = int(self._data[:_LENGTH_BYTES].view("<u8")[0])
        if length > MAX_HEADER_BYTES:
            raise LimitExceeded(
                f"a header of {length} bytes; at most {MAX_HEADER_BYTES} are read",
                path=self._path,
                hint=_HINT,
            )
        self._first = _LENGTH_BYTES + length
        try:
            header = json.loads(self._data[_LENGTH_BYTES : self._first].tobytes())
        except (ValueError, RecursionError):
            header = None
        if self._first > len(self._data) or not isinstance(header, dict):
            raise self._refusal("its header is no JSON object")
        self._entries: dict[str, Any] = {
            name: entry for name, entry in header.items() if name != "__metadata__"
        }

    @property
    def names(self) -> frozenset[str]:
        """Its tensors."""
        return frozenset(self._entries)

    def _map(self, path: Path) -> NDArray[np.uint8]:
        try:
            if not path.is_file() or path.stat().st_size < _LENGTH_BYTES:
                raise self._refusal("it is no safetensors file")
            data: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        except OSError as error:
            raise FileUnreadable(
                (error.strerror or str(error)).lower(), path=self._path, hint=_HINT
            ) from error
        return data

    def _refusal(self, message: str) -> SchemaMismatch:
        return SchemaMismatch(message, path=self._path, hint=_HINT)

    def tensor(self, name: str) -> WeightTensor:
        """One tensor, as `SafetensorsModel.tensor`."""
        entry = self._entries.get(name)
        if not isinstance(entry, Mapping):
            raise self._refusal(f"it has no tensor {name}, which the index says it has")
        stored = entry.get("dtype")
        shape, offsets = _counts(entry.get("shape")), _counts(entry.get("data_offsets"))
        if shape is None or offsets is None or len(offsets) != 2:  # noqa: PLR2004 - from where to where
            raise self._refusal(f"the shape or the offsets of {name} are none")
        # A single number has no rows: it is read as one.
        shape = shape or (1,)
        first, last = (self._first + offset for offset in offsets)
        if not self._first <= first <= last <= len(self._data):
            raise self._refusal(f"{name} lies outside of the file")
        kind = element_type(_TYPES.get(str(stored), ""))
        if kind is None:
            raise ModelNotApplicable(
                f"quantised weights: {name} is stored as {stored}",
                path=self._path,
                hint="give the model's weights before they were quantised, or learn a table of a dump",
            )
        if math.prod(shape) * kind.itemsize != last - first:
            raise self._refusal(f"{name} has {last - first} bytes, not those of its shape")
        row_bytes = (last - first) // shape[0] if shape[0] else 0

        def read(first_row: int, last_row: int) -> NDArray[np.float32]:
            data = self._data[first + first_row * row_bytes : first + last_row * row_bytes]
            rows = decoded(np.asarray(data).reshape(1, -1), kind.name)
            return rows.reshape(last_row - first_row, *shape[1:])

        return WeightTensor(name=name, shape=shape, dtype=kind.name, read=read)


def _counts(values: object) -> tuple[int, ...] | None:
    """A list of counts; None where it is none."""
    if not isinstance(values, list) or not all(type(each) is int and each >= 0 for each in values):
        return None
    return tuple(values)
