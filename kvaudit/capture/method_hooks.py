"""Methods of live objects, wrapped for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

_ABSENT: Final = object()


class _Replaced(NamedTuple):
    """A method put onto an object.

    Fields:
        owner: the object.
        name: the method's name.
        method: what was put there.
        own: what the object itself had under the name; _ABSENT when its class alone has one.
    """

    owner: object
    name: str
    method: Callable[..., object]
    own: object


class MethodHooks:
    """Hooks on single objects, none on a class: other engines of the process run untouched.

    An exception in a hook ends all hooking, not the hooked call: a fault of the observer must not
    fail the requests being served. It is kept in `failure`.

    Hooks on hooks come off in any order: one that another wraps stays, and only passes calls on.

    Args:
        passes: exceptions that a hooked call raises all the same, such as an alarm.
    """

    def __init__(self, *, passes: tuple[type[Exception], ...] = ()) -> None:
        self.failure: Exception | None = None
        self._passes = passes
        self._replaced: list[_Replaced] = []
        self._removed = False

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
        original = getattr(owner, name)

        def replaced(*args: object, **kwargs: object) -> object:
            return (original if self._removed else method)(*args, **kwargs)

        self._replaced.append(_Replaced(owner, name, replaced, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, replaced)

    def run(self, hook: Callable[[], None]) -> None:
        """Call a hook, unless one has failed before."""
        if self.failure is not None:
            return
        try:
            hook()
        except Exception as failure:  # kept, and raised by whoever owns the hooks
            self.failure = failure
            if not self._removed and isinstance(failure, self._passes):
                raise

    def remove(self) -> None:
        """Give every object its own methods back; nothing is hooked from then on."""
        self._removed = True
        for owner, name, method, own in reversed(self._replaced):
            if vars(owner).get(name) is not method:
                continue
            if own is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
        self._replaced.clear()
