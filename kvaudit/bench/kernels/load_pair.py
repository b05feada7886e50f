"""A 16-byte load, as engines read KV: numba would split it into two of 8 bytes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.types import uint64
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic

from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import SIMULATED

PAIR_BYTES = 16
_WORD = ir.IntType(64)
_PAIR = ir.VectorType(_WORD, 2)
_INDEX = ir.IntType(32)


@intrinsic
def _load_pair(_typing_context: Any, words: Any, word_idx: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        array = context.make_array(array_type)(context, builder, arguments[0])
        item = cgutils.get_item_pointer(
            context, builder, array_type, array, [arguments[1]], wraparound=False
        )
        pair = builder.load(builder.bitcast(item, _PAIR.as_pointer()), align=PAIR_BYTES)
        halves = [builder.extract_element(pair, _INDEX(half)) for half in range(2)]
        return context.make_tuple(builder, signature.return_type, halves)

    return UniTuple(uint64, 2)(words, word_idx), generate


def _simulated_pair(words: KernelArray, word_idx: int) -> tuple[Any, Any]:
    return words[word_idx], words[word_idx + 1]


# (words[i], words[i + 1]) of uint64 words that lie at a multiple of 16 bytes; i is an int64.
load_pair = _simulated_pair if SIMULATED else _load_pair
