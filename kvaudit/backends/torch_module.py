"""The one place that imports torch, so that its absence is told the same way everywhere."""

from __future__ import annotations

from kvaudit.errors import BackendNotInstalled

try:
    import torch
except ModuleNotFoundError as error:
    raise BackendNotInstalled(
        "the launch API works on torch tensors, and torch is not installed",
        hint="install the extra: pip install 'kvaudit[torch]'",
    ) from error

__all__ = ["torch"]
