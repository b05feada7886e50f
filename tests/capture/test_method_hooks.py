"""Hooks see each call, never break one, and leave nothing behind."""

from __future__ import annotations

import pytest

from kvaudit.capture.method_hooks import MethodHooks


class Engine:
    def __init__(self) -> None:
        self.calls: list[object] = []

    def run(self, value: int, *, scale: int = 1) -> int:
        self.calls.append(("run", value, scale))
        return value * scale


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_before_and_after_see_the_arguments_in_order(engine: Engine) -> None:
    hooks = MethodHooks()
    hooks.before(engine, "run", lambda value, scale: engine.calls.append(("before", value, scale)))
    hooks.after(engine, "run", lambda value, scale: engine.calls.append(("after", value, scale)))
    assert engine.run(3, scale=2) == 6
    assert engine.calls == [("before", 3, 2), ("run", 3, 2), ("after", 3, 2)]


def test_other_objects_of_the_class_are_not_hooked(engine: Engine) -> None:
    hooks = MethodHooks()
    hooks.before(engine, "run", lambda *_: engine.calls.append("before"))
    other = Engine()
    other.run(1)
    assert other.calls == [("run", 1, 1)]
    assert engine.calls == []


def test_a_failing_hook_ends_the_hooking_and_not_the_call(engine: Engine) -> None:
    hooks = MethodHooks()
    failures = iter([ValueError("first"), ValueError("second")])

    def fail(*_: object) -> None:
        raise next(failures)

    hooks.before(engine, "run", fail)
    hooks.after(engine, "run", lambda *_: engine.calls.append("after"))
    assert (engine.run(3), engine.run(4)) == (3, 4)
    assert engine.calls == [("run", 3, 1), ("run", 4, 1)]
    assert str(hooks.failure) == "first"


def test_an_alarm_is_kept_and_passes_through_once(engine: Engine) -> None:
    hooks = MethodHooks(passes=(LookupError,))

    def alarm(*_: object) -> None:
        raise KeyError("the alarm")

    hooks.after(engine, "run", alarm)
    with pytest.raises(KeyError, match="the alarm"):
        engine.run(3)
    assert engine.run(4) == 4
    assert isinstance(hooks.failure, KeyError)


def test_an_alarm_of_hooks_that_came_off_is_only_kept(engine: Engine) -> None:
    hooks = MethodHooks(passes=(ZeroDivisionError,))
    hooks.remove()
    hooks.run(lambda: engine.run(1 // 0))
    assert isinstance(hooks.failure, ZeroDivisionError)


def test_an_exception_of_the_engine_passes_through() -> None:
    class Failing:
        def run(self) -> None:
            raise KeyError("its own")

    engine, seen, hooks = Failing(), [], MethodHooks()
    hooks.before(engine, "run", lambda: seen.append("before"))
    hooks.after(engine, "run", lambda: seen.append("after"))
    with pytest.raises(KeyError, match="its own"):
        engine.run()
    assert seen == ["before"]
    assert hooks.failure is None


def test_removed_hooks_leave_the_object_as_it_was(engine: Engine) -> None:
    hooks = MethodHooks()
    hooks.before(engine, "run", lambda *_: engine.calls.append("before"))
    hooks.replace(engine, "run", lambda value: value + 1)
    assert engine.run(3) == 4
    hooks.remove()
    assert set(vars(engine)) == {"calls"}
    assert engine.run(3) == 3


def test_an_override_of_the_object_itself_comes_back(engine: Engine) -> None:
    def own(value: int) -> int:
        return value + 1

    engine.run = own
    hooks = MethodHooks()
    hooks.before(engine, "run", lambda *_: engine.calls.append("first"))
    hooks.after(engine, "run", lambda *_: engine.calls.append("second"))
    assert engine.run(3) == 4
    hooks.remove()
    assert engine.run is own
    assert engine.calls == ["first", "second"]


@pytest.mark.parametrize("order", ["inner first", "outer first"])
def test_two_observers_of_one_object_leave_in_any_order(engine: Engine, order: str) -> None:
    seen: list[str] = []
    inner, outer = MethodHooks(), MethodHooks()
    inner.before(engine, "run", lambda *_: seen.append("inner"))
    outer.before(engine, "run", lambda *_: seen.append("outer"))
    first, second = (inner, outer) if order == "inner first" else (outer, inner)
    engine.run(1)
    first.remove()
    engine.run(2)
    second.remove()
    engine.run(3)
    assert seen == ["outer", "inner", "outer" if first is inner else "inner"]
    assert engine.calls == [("run", value, 1) for value in (1, 2, 3)]
    assert engine.run(5, scale=2) == 10
