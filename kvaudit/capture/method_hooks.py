"""Methods of live objects, wrapped for a while."""

from __future__ import annotations

from collections.abc import Callable


class MethodHooks:
    """Hooks on single objects, none on a class: other engines of the process run untouched.

    An exception in a hook ends all hooking, not the hooked call: a fault of the observer must not
    fail the requests being served. It is kept in `failure`.
    """

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._replaced: list[tuple[object, str]] = []

    def before(self, owner: object, name: str, hook: Callable[..., None]) -> None:
        """Call the hook with a method's arguments before each call of it."""
        method = getattr(owner, name)

        def hooked(*args: object, **kwargs: object) -> object:
            self.run(lambda: hook(*args, **kwargs))
            result: object = method(*args, **kwargs)
            return result

        self.replace(owner, name, hooked)

    def after(self, owner: object, name: str, hook: Callable[..., None]) -> None:
        """Call the hook with a method's arguments after each call of it."""
        method = getattr(owner, name)

        def hooked(*args: object, **kwargs: object) -> object:
            result: object = method(*args, **kwargs)
            self.run(lambda: hook(*args, **kwargs))
            return result

        self.replace(owner, name, hooked)

    def replace(self, owner: object, name: str, method: Callable[..., object]) -> None:
        """Put a method onto the object until `remove`."""
        setattr(owner, name, method)
        self._replaced.append((owner, name))

    def run(self, hook: Callable[[], None]) -> None:
        """Call a hook, unless one has failed before."""
        if self.failure is not None:
            return
        try:
            hook()
        except Exception as failure:  # noqa: BLE001 - kept, and raised by whoever owns the hooks
            self.failure = failure

    def remove(self) -> None:
        """Give every object its own methods back."""
        for owner, name in self._replaced:
            vars(owner).pop(name, None)
        self._replaced.clear()
