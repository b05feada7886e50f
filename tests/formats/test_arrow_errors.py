"""No exception of pyarrow leaves `formats` as itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvaudit.errors import InputError, LimitExceeded, NotArrow
from kvaudit.formats.arrow_errors import ERROR_OF, translate, translated


def exception_classes(root):
    yield root
    for child in root.__subclasses__():
        yield from exception_classes(child)


def test_every_exception_class_of_pyarrow_is_mapped_by_name():
    classes = set(exception_classes(pa.lib.ArrowException))
    classes |= {
        value
        for value in vars(pa.lib).values()
        if isinstance(value, type) and issubclass(value, Exception) and "arrow" in value.__module__
    }
    assert len(classes) > 5
    assert classes - set(ERROR_OF) == set()


@pytest.mark.parametrize("foreign", ERROR_OF, ids=lambda foreign: foreign.__name__)
def test_each_becomes_its_own_error_with_path_and_column(foreign):
    error = (
        foreign("utf-8", b"\xff", 0, 1, "bad")
        if foreign is UnicodeDecodeError
        else foreign("first line\nsecond line")
    )
    with pytest.raises(InputError) as caught, translated("a.arrow", "kv.k.0"):
        raise error
    assert type(caught.value) is ERROR_OF[foreign]
    assert (caught.value.path, caught.value.column) == ("a.arrow", "kv.k.0")
    assert "second" not in caught.value.message


def test_the_most_specific_class_wins():
    assert type(translate(pa.ArrowMemoryError("x"), path="a")) is LimitExceeded
    assert type(translate(FileNotFoundError("x"), path="a")) is NotArrow


def test_other_exceptions_pass_through():
    with pytest.raises(ZeroDivisionError), translated("a.arrow"):
        raise ZeroDivisionError
