"""Whether a tensor's bytes are there to be read: reading them where they are not ends the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    import torch

_HINT: Final = (
    "give the dense tensors that the engine's attention reads, while they have their memory"
)


def check_readable(tensor: torch.Tensor, name: str) -> None:
    """Refuse a tensor that has no bytes, or has others than its elements.

    An engine that sleeps has given its pool's memory back, and the tensors are still there.

    Raises:
        ConfigError: it is sparse, quantized, on the meta device, or its memory was given back.
    """
    from kvaudit.backends.launch_tensor_checks import check_is_tensor, check_memory

    if tensor.is_meta:
        raise ConfigError(f"{name}: a tensor on {tensor.device} has no bytes to dump", hint=_HINT)
    try:
        check_is_tensor(tensor, name)
        check_memory(tensor, name)
    except ValueError as error:
        raise ConfigError(str(error), hint=_HINT) from error
