"""The metadata and the tensors of GGUF files, through the `gguf` package, quantised ones dequantised."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.errors import BackendNotInstalled, FileUnreadable, ModelNotApplicable, SchemaMismatch
from kvaudit.importers.weight_tensor import WeightTensor

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

_SHARD: Final = re.compile(r"(.*)-\d{5}-of-(\d{5})\.gguf")
_HINT: Final = "download the model again"
# Types in which a model computes as it is stored; dequantised, it is float32.
_PLAIN_TYPES: Final = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class GgufModel:
    """One model, in one file or in shards named `…-00001-of-00003.gguf`.

    Args:
        path: the file, or any of the shards.

    Raises:
        BackendNotInstalled: the gguf package is missing.
        FileUnreadable: a file cannot be read.
        SchemaMismatch: a file is no GGUF file.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        readers = [_reader(each) for each in _shards(path)]
        self._fields = {
            name: field for reader in reversed(readers) for name, field in reader.fields.items()
        }
        self._tensors = {each.name: each for reader in readers for each in reader.tensors}

    @property
    def names(self) -> frozenset[str]:
        """The names of all tensors, as the converter gives them."""
        return frozenset(self._tensors)

    def value(self, key: str) -> Any:  # noqa: ANN401 - what the file holds
        """A metadata value; None where there is none."""
        field = self._fields.get(key)
        return None if field is None else field.contents()

    def tensor(self, name: str) -> WeightTensor:
        """One tensor; rows are dequantised when they are read.

        Raises:
            SchemaMismatch: there is none.
        """
        found = self._tensors.get(name)
        if found is None:
            raise SchemaMismatch(f"it has no tensor {name}", path=self.path, hint=_HINT)

        def read(first: int, last: int) -> NDArray[np.float32]:
            return self._dequantised(found, first, last)

        return WeightTensor(
            name=name,
            shape=tuple(int(size) for size in reversed(found.shape)),
            dtype=_PLAIN_TYPES.get(found.tensor_type.name, "float32"),
            read=read,
        )

    def _dequantised(self, tensor: ReaderTensor, first: int, last: int) -> NDArray[np.float32]:
        import gguf

        try:
            rows = gguf.dequantize(tensor.data[first:last], tensor.tensor_type)
        except NotImplementedError as error:
            raise ModelNotApplicable(
                f"not applicable: {tensor.name} is stored as {tensor.tensor_type.name}, which the "
                "gguf package does not dequantise",
                path=self.path,
                hint="give the model in another quantisation",
            ) from error
        return np.asarray(rows, dtype=np.float32)


def _shards(path: Path) -> list[Path]:
    found = _SHARD.fullmatch(path.name)
    if found is None:
        return [path]
    stem, count = found[1], found[2]
    return [
        path.with_name(f"{stem}-{number:05}-of-{count}.gguf") for number in range(1, int(count) + 1)
    ]


def _reader(path: Path) -> GGUFReader:
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise BackendNotInstalled(
            "a .gguf file is read by the gguf package, and that is not installed",
            hint="install the extra: pip install 'kvaudit[models]'",
        ) from error
    try:
        return gguf.GGUFReader(path)
    except OSError as error:
        raise FileUnreadable(
            (error.strerror or str(error)).lower(), path=str(path), hint=_HINT
        ) from error
    # A damaged file fails wherever the package first meets nonsense.
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise SchemaMismatch(f"is no GGUF file: {error}", path=str(path), hint=_HINT) from error
