"""The launches that a canary calls: the one seam between the runner and `kvaudit.backends.launch`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kvaudit.backends import launch


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryLaunches:
    """Three launchers with the keyword arguments of `kvaudit.backends.launch`.

    Fields:
        verify: as `launch_canary_verify_kernel`.
        write: as `launch_canary_write_kernel`.
        plan: as `launch_canary_plan_kernels`.
    """

    verify: Callable[..., None]
    write: Callable[..., None]
    plan: Callable[..., None]


# The plain ones, which a `--backend reference` asks for.
REFERENCE_LAUNCHES: Final = CanaryLaunches(
    verify=launch.launch_canary_verify_kernel_torch_reference,
    write=launch.launch_canary_write_kernel_torch_reference,
    plan=launch.launch_canary_plan_kernels_torch_reference,
)


def device_launches() -> CanaryLaunches:
    """The kernels of the tensors' device, prepared once where a launch repeats.

    Each pool has its own, since what is prepared holds on to the tensors.
    """
    return CanaryLaunches(
        verify=RepeatedLaunch(
            launch.launch_canary_verify_kernel,
            prepare=launch.prepare_canary_verify_kernel,
            owner="context",
        ),
        write=RepeatedLaunch(
            launch.launch_canary_write_kernel,
            prepare=launch.prepare_canary_write_kernel,
            owner="context",
        ),
        plan=RepeatedLaunch(
            launch.launch_canary_plan_kernels,
            prepare=launch.prepare_canary_plan_kernels,
            owner="verify_plan_out",
        ),
    )


class RepeatedLaunch:
    """A launcher that prepares a launch when its arguments come a second time.

    Arguments are the same when they are the same objects: the tensors of a step that repeats are
    filled anew, not made anew. Others are launched as they come, and leave what is prepared.

    Args:
        launcher: launches once.
        prepare: prepares a launch of the same arguments.
        owner: the argument that repeats from step to step: one launch is prepared for each.
    """

    def __init__(
        self,
        launcher: Callable[..., None],
        *,
        prepare: Callable[..., Callable[[], None]],
        owner: str,
    ) -> None:
        self._launcher = launcher
        self._prepare = prepare
        self._owner = owner
        self._launches: dict[int, _OwnedLaunch] = {}

    def __call__(self, **arguments: Any) -> None:  # noqa: ANN401 - those of the launcher
        """Launch."""
        owner = arguments[self._owner]
        # The owner is kept, so no other object comes to have its id.
        owned = self._launches.setdefault(id(owner), _OwnedLaunch(owner=owner))
        if owned.prepared is not None and _is_same(owned.prepared_arguments, arguments):
            owned.prepared()
        elif _is_same(owned.last_arguments, arguments):
            owned.prepared = self._prepare(**arguments)
            owned.prepared_arguments, owned.last_arguments = arguments, {}
            owned.prepared()
        else:
            owned.last_arguments = arguments
            self._launcher(**arguments)


@dataclass(slots=True, kw_only=True, eq=False)
class _OwnedLaunch:
    """What is known of one owner's launches.

    Fields:
        owner: kept alive.
        last_arguments: of the last call that was not prepared.
        prepared_arguments: of the prepared launch.
        prepared: the launch; None before there is one.
    """

    owner: object
    last_arguments: Mapping[str, Any] = field(default_factory=dict)
    prepared_arguments: Mapping[str, Any] = field(default_factory=dict)
    prepared: Callable[[], None] | None = None


def _is_same(known: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether two calls have the same objects; numbers are compared."""
    return known.keys() == arguments.keys() and all(
        value is known[name] or (isinstance(value, int) and value == known[name])
        for name, value in arguments.items()
    )
