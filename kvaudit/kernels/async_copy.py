"""Copies into shared memory that run beside the threads that asked for them.

numba has no words for them, so they are PTX (`cp.async`, compute capability 8.0). A copy goes past
the registers: a thread may have many under way and fold meanwhile. Each reads whole words of 8
bytes, one or two; both ends are aligned to what it reads. In the simulator a copy is there at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from kvaudit.constants import WORD_BYTES
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import SIMULATED, intrinsic, types

__all__ = ["commit_copies", "copy_async", "copy_pair_async", "load_pair", "wait_for_older_copies"]

_ADDRESS = ir.IntType(64)
_WORD = ir.IntType(64)
_PAIR = ir.VectorType(_WORD, 2)
_PAIR_BYTES = 2 * WORD_BYTES


def _pointer(context: Any, builder: Any, array: tuple[Any, Any], index: Any) -> Any:  # noqa: ANN401 - llvmlite's
    """Where an element of a C-contiguous array is; array is its type and its value."""
    structure = context.make_array(array[0])(context, builder, array[1])
    return builder.gep(structure.data, [index])


def _run(builder: Any, text: str, operands: tuple[Any, ...] = ()) -> None:  # noqa: ANN401 - llvmlite's
    """Emit PTX that reads or writes memory, over 64-bit operands."""
    signature = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
    constraints = "".join("l," for _ in operands) + "~{memory}"
    builder.call(ir.InlineAsm(signature, text, constraints, side_effect=True), operands)


def _copying(options: str, num_bytes: int) -> Callable[..., Any]:
    """The intrinsic that copies num_bytes from source_words to shared, at indices of words."""
    text = (
        "{ .reg .u64 shared_address; cvta.to.shared.u64 shared_address, $0;"
        f" cp.async.{options} [shared_address], [$1], {num_bytes}; }}"
    )

    @intrinsic
    def copy(_typing: Any, shared: Any, shared_idx: Any, source_words: Any, word_idx: Any) -> Any:  # noqa: ANN401 - numba's
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - numba's
            shared_type, _, source_type, _ = signature.args
            ends = (
                _pointer(context, builder, (shared_type, arguments[0]), arguments[1]),
                _pointer(context, builder, (source_type, arguments[2]), arguments[3]),
            )
            _run(builder, text, tuple(builder.ptrtoint(end, _ADDRESS) for end in ends))
            return context.get_dummy_value()

        return types.void(shared, shared_idx, source_words, word_idx), codegen

    return copy  # type: ignore[no-any-return] # numba's


def _ordering(text: str) -> Callable[..., Any]:
    """The intrinsic of an instruction without operands."""

    @intrinsic
    def order(_typing: Any) -> Any:  # noqa: ANN401 - numba's
        def codegen(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:  # noqa: ANN401 - numba's
            _run(builder, text)
            return context.get_dummy_value()

        return types.void(), codegen

    return order  # type: ignore[no-any-return] # numba's


@intrinsic
def _load_pair(_typing: Any, words: Any, word_idx: Any) -> Any:  # noqa: ANN401 - numba's
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - numba's
        pointer = _pointer(context, builder, (signature.args[0], arguments[0]), arguments[1])
        pair = builder.load(builder.bitcast(pointer, _PAIR.as_pointer()))
        pair.align = _PAIR_BYTES
        halves = [builder.extract_element(pair, ir.IntType(32)(half)) for half in range(2)]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(words, word_idx), codegen


def _simulated_copy(
    shared: KernelArray, shared_idx: int, source_words: KernelArray, word_idx: int
) -> None:
    shared[shared_idx] = source_words[0, word_idx]


def _simulated_pair_copy(
    shared: KernelArray, shared_idx: int, source_words: KernelArray, word_idx: int
) -> None:
    for half in range(2):
        shared[int(shared_idx) + half] = source_words[0, int(word_idx) + half]


def _simulated_pair(words: KernelArray, word_idx: int) -> tuple[Any, Any]:
    return words[int(word_idx)], words[int(word_idx) + 1]


def _nothing_to_order() -> None:
    """A simulated copy is finished when it returns."""


# copy(shared, shared_idx, source_words, word_idx): shared is 1-D, source_words of shape [1, n].
# The pair is fetched past L1; what lies behind it in the same 256 bytes is read next, so L2 fetches
# them at once: without that hint the memory's rows are opened for 128 bytes at a time.
copy_async = _simulated_copy if SIMULATED else _copying("ca.shared.global.L2::256B", WORD_BYTES)
copy_pair_async = (
    _simulated_pair_copy if SIMULATED else _copying("cg.shared.global.L2::256B", _PAIR_BYTES)
)
# The copies of this thread since the last commit are one group.
commit_copies = _nothing_to_order if SIMULATED else _ordering("cp.async.commit_group;")
# All groups of this thread but the youngest have arrived; others see them after a `warp_sync`.
wait_for_older_copies = _nothing_to_order if SIMULATED else _ordering("cp.async.wait_group 1;")
# Two adjacent words of a 1-D array, aligned to 16 bytes, in one load.
load_pair = _simulated_pair if SIMULATED else _load_pair
