"""Tables of layer-0 rows, from dumps or from a model's weights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kvaudit.core.observer import RunObserver, SilentObserver
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    from kvaudit.core.dataset import Dataset
    from kvaudit.core.layer0_table import Layer0Table
    from kvaudit.formats.dataset import StrPath


def learn(
    dataset: Dataset,
    *,
    backend: str = "auto",
    observer: RunObserver | None = None,
) -> Layer0Table:
    """Learn what layer 0 holds of each token from dumps: what most slots of a token hold.

    Args:
        dataset: what `open` returned: dumps of one model and rank, with the bytes of layer 0.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        observer: told of progress; None = nobody.

    Raises:
        InputError: a file is corrupt, has no layer-0 V or no tokens, or rows of one token differ.
        BackendError: a demanded backend cannot run, or failed while it ran.
    """
    from kvaudit.backends.availability import choose
    from kvaudit.core.job_size import kv_bytes_of
    from kvaudit.runner.learn import learnt_table

    if dataset.left_out:
        raise dataset.left_out[0]
    chosen, _ = choose(backend, kv_bytes=kv_bytes_of(dataset.pools), num_entries=0)
    return learnt_table(
        dataset.pools,
        backend=chosen,
        observer=SilentObserver() if observer is None else observer,
    )


def open_table(path: StrPath) -> Layer0Table:
    """Open a table that `kvaudit learn` wrote, for `AuditOptions.layer0`.

    Args:
        path: the file.

    Raises:
        InputError: it cannot be read, is of another kind, or is invalid.
    """
    from kvaudit.formats.reader import read_layer0_table

    return read_layer0_table(path)


def learn_model(
    path: StrPath,
    *,
    dtype: str | None = None,
    max_length: int | None = None,
    rope_layout: str | None = None,
    observer: RunObserver | None = None,
) -> Layer0Table:
    """Learn what layer 0 holds of each token from a model's weights, without a forward pass.

    Args:
        path: the model's folder with `config.json` and safetensors, or a `.gguf` file.
        dtype: the type that the engine computes in, `float32`, `float16` or `bfloat16`; None = that
            of the weights.
        max_length: the longest sequence that the engine allows, in tokens, by which some rotations
            scale; None = not known.
        rope_layout: which elements of a head the engine turns together, `half` or `interleaved`;
            None = those of the makers.
        observer: told of progress; None = nobody.

    Raises:
        InputError: a file is missing or damaged, or layer 0 of this model is no function of token
            and position: `ModelNotApplicable`, with the reason.
        BackendNotInstalled: a .gguf file needs the extra `models`.
        ConfigError: dtype or rope_layout is none of these.
    """
    from kvaudit.core.rope import RopeLayout
    from kvaudit.importers.model_weights import model_table

    if rope_layout is not None and rope_layout not in set(RopeLayout):
        raise ConfigError(
            f"{rope_layout!r} is no layout of RoPE", hint=f"take {' or '.join(RopeLayout)}"
        )
    return model_table(
        os.fspath(path),
        dtype=dtype,
        longest=max_length,
        layout=None if rope_layout is None else RopeLayout(rope_layout),
        observer=observer,
    )
