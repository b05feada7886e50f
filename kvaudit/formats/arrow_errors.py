"""Where pyarrow's exceptions become kvaudit's: nothing foreign leaves `formats`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from kvaudit.errors import FileUnreadable, InputError, LimitExceeded, NotArrow, SchemaMismatch

NOT_ARROW_HINT: Final = "dump it again, or copy it again if it came from elsewhere"

# The most specific class wins; a test walks pyarrow's tree and fails on a class not listed here.
ERROR_OF: Final[dict[type[Exception], type[InputError]]] = {
    pa.ArrowInvalid: NotArrow,
    pa.ArrowIndexError: NotArrow,
    pa.ArrowSerializationError: NotArrow,
    pa.ArrowKeyError: SchemaMismatch,
    pa.ArrowTypeError: SchemaMismatch,
    pa.ArrowNotImplementedError: SchemaMismatch,
    pa.ArrowCapacityError: LimitExceeded,
    pa.ArrowMemoryError: LimitExceeded,
    pa.ArrowCancelled: FileUnreadable,
    pa.ArrowException: NotArrow,
    # pyarrow raises a plain OSError for a message that is no message.
    OSError: NotArrow,
    UnicodeDecodeError: NotArrow,
    # A type nested without end, in a schema made to hurt.
    RecursionError: NotArrow,
    MemoryError: LimitExceeded,
    OverflowError: NotArrow,
}


def translate(error: Exception, *, path: str, column: str | None = None) -> InputError:
    """The kvaudit error for one that pyarrow raised while it read `path`."""
    for foreign in type(error).__mro__:
        if foreign in ERROR_OF:
            first_line = (str(error) or type(error).__name__).splitlines()[0]
            return ERROR_OF[foreign](first_line, path=path, column=column, hint=NOT_ARROW_HINT)
    raise AssertionError(error)


@contextmanager
def translated(path: str, column: str | None = None) -> Iterator[None]:
    """Raise what pyarrow raises inside as an InputError that names path and column."""
    try:
        yield
    except tuple(ERROR_OF) as error:
        raise translate(error, path=path, column=column) from error
