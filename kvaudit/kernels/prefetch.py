"""A hint to the CPU that a row is about to be read, for kernels that walk rows at random.

The cores look ahead no further than a few entries of arithmetic: without the hint every page of a
pool costs a kernel a wait for memory, with it they are under way together.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_POINTER = ir.IntType(8).as_pointer()
_FLAG = ir.IntType(32)
_FOR_READING = 0
_KEPT_IN_ALL_CACHES = 3
_DATA = 1


@intrinsic
def prefetch_row(_typing_context: Any, rows: Any, row_idx: Any) -> Any:  # noqa: ANN401 - numba types
    """Ask for rows[row_idx, 0], of an array [n, m] with 0 <= row_idx < n, without waiting."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array_type = signature.args[0]
        array = context.make_array(array_type)(context, builder, arguments[0])
        indices = [arguments[1], context.get_constant(types.intp, 0)]
        pointer = cgutils.get_item_pointer(context, builder, array_type, array, indices)
        flags = [_FLAG(flag) for flag in (_FOR_READING, _KEPT_IN_ALL_CACHES, _DATA)]
        function = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [_POINTER],
            ir.FunctionType(ir.VoidType(), [_POINTER, *[_FLAG] * len(flags)]),
        )
        builder.call(function, [builder.bitcast(pointer, _POINTER), *flags])
        return context.get_dummy_value()

    return types.void(rows, row_idx), generate
