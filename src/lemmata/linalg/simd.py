"""A cache line as one value: the SIMD primitives that kernels over rows are written in.

A line (64 bytes of float32 or float64) is loaded, scaled, added and stored as one LLVM vector held in registers: LLVM's own
loop vectoriser does not do that for 16 numbers at a time (measured: 2-3 times slower). Beside them: single numbers, sums,
products, choices and prefetching of lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from lemmata.core.engine import kernel

Array = np.ndarray
LINE = 64  # bytes of a cache line


class Line(types.Type):
    """64 bytes of float32 or float64, one LLVM vector."""

    def __init__(self, dtype):
        self.dtype, self.lanes = dtype, 8 * LINE // dtype.bitwidth
        super().__init__(name=f"Line({dtype})")


@register_model(Line)
class LineModel(models.PrimitiveModel):
    def __init__(self, manager, line):
        number = ir.FloatType() if line.dtype == types.float32 else ir.DoubleType()
        super().__init__(manager, line, ir.VectorType(number, line.lanes))


def operation(code: Callable) -> Any:
    """numba's `intrinsic`, whose type hints do not know that callers leave out the typing context."""
    return intrinsic(code)


def _address(context, builder, array_type, array, index, index_type):
    line = context.get_value_type(Line(array_type.dtype))
    start = context.make_array(array_type)(context, builder, array).data
    index = context.cast(builder, index, index_type, types.intp)
    return builder.gep(builder.bitcast(start, line.as_pointer()), [index])


def spread_over(context, builder, line, number, number_type):
    """The LLVM vector of a line with this number in every lane."""
    nothing = ir.Constant(context.get_value_type(line), ir.Undefined)
    number = context.cast(builder, number, number_type, line.dtype)
    first = builder.insert_element(nothing, number, ir.IntType(32)(0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), line.lanes), [0] * line.lanes)
    return builder.shuffle_vector(first, nothing, everywhere)


@operation
def load(_, lines, index):
    """Line number `index` of a C-contiguous, 64-byte aligned array of lines."""

    def code(context, builder, signature, args):
        return builder.load(_address(context, builder, lines, args[0], args[1], index), align=LINE)

    return Line(lines.dtype)(lines, index), code


@operation
def store(_, lines, index, line):
    """Write a line."""

    def code(context, builder, signature, args):
        builder.store(
            args[2], _address(context, builder, lines, args[0], args[1], index), align=LINE
        )
        return context.get_dummy_value()

    return types.void(lines, index, line), code


@operation
def zero(_, lines):
    """The line of zeros."""

    def code(context, builder, signature, args):
        return ir.Constant(
            context.get_value_type(signature.return_type), [0.0] * signature.return_type.lanes
        )

    return Line(lines.dtype)(lines), code


@operation
def axpy(_, a, x, y):
    """a·x + y for a number a and lines x, y, in one rounding where the machine has a fused multiply-add."""

    def code(context, builder, signature, args):
        number, fused = spread_over(context, builder, x, args[0], a), ("contract",)
        return builder.fadd(builder.fmul(number, args[1], flags=fused), args[2], flags=fused)

    return y(a, x, y), code


def lane_by_lane(instruction: str) -> Any:
    """An operation on two lines that is one instruction of LLVM."""

    @operation
    def operate(_, x, y):
        def code(context, builder, signature, args):
            return getattr(builder, instruction)(*args)

        return y(x, y), code

    return operate


add, minus, multiply, divide = map(lane_by_lane, ("fadd", "fsub", "fmul", "fdiv"))


def empty_lines(chunks: int, rows: int, dtype) -> Array:
    """An uninitialised array (chunks, rows, lanes) whose every last axis is one aligned cache line."""
    dtype = np.dtype(dtype)
    lanes = LINE // dtype.itemsize
    raw = np.empty((chunks * rows + 1) * lanes, dtype)  # one line more, to find an aligned start
    first = (-raw.ctypes.data % LINE) // dtype.itemsize
    return raw[first : first + chunks * rows * lanes].reshape(chunks, rows, lanes)


@operation
def at(_, lines, index):
    """Number `index` of an array seen as flat; without numba's look whether the index is negative."""

    def code(context, builder, signature, args):
        start = context.make_array(lines)(context, builder, args[0]).data
        return builder.load(builder.gep(start, [context.cast(builder, args[1], index, types.intp)]))

    return lines.dtype(lines, index), code


@operation
def load_from(_, numbers, place):
    """A line from anywhere: the numbers `place`, place + 1, … of an array seen as flat."""

    def code(context, builder, signature, args):
        start = context.make_array(numbers)(context, builder, args[0]).data
        address = builder.gep(start, [context.cast(builder, args[1], place, types.intp)])
        kind = context.get_value_type(signature.return_type).as_pointer()
        return builder.load(builder.bitcast(address, kind), align=numbers.dtype.bitwidth // 8)

    return Line(numbers.dtype)(numbers, place), code


@operation
def spread(_, lines, number):
    """A line of equal numbers."""

    def code(context, builder, signature, args):
        return spread_over(context, builder, signature.return_type, args[1], number)

    return Line(lines.dtype)(lines, number), code


@operation
def madd(_, x, y, z):
    """x·y + z for lines, lane by lane."""

    def code(context, builder, signature, args):
        fused = ("contract",)
        return builder.fadd(builder.fmul(args[0], args[1], flags=fused), args[2], flags=fused)

    return z(x, y, z), code


@operation
def total(_, x):
    """The sum of a line's numbers, by halves."""

    def code(context, builder, signature, args):
        line, lanes = args[0], x.lanes
        while lanes > 1:
            lanes //= 2
            nothing, places = (
                ir.Constant(line.type, ir.Undefined),
                ir.VectorType(ir.IntType(32), lanes),
            )
            low = builder.shuffle_vector(line, nothing, ir.Constant(places, list(range(lanes))))
            high = builder.shuffle_vector(
                line, nothing, ir.Constant(places, list(range(lanes, 2 * lanes)))
            )
            line = builder.fadd(low, high)
        return builder.extract_element(line, ir.IntType(32)(0))

    return x.dtype(x), code


@operation
def root(_, x):
    """√x for lines."""

    def code(context, builder, signature, args):
        kind, name = args[0].type, f"llvm.sqrt.v{x.lanes}f{x.dtype.bitwidth}"
        return builder.call(
            cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name),
            args,
        )

    return x(x), code


@operation
def where_larger(_, x, y, a, b):
    """a where x > y, else b: lane by lane."""

    def code(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

    return a(x, y, a, b), code


@operation
def fetch(_, lines, index):
    """Ask the memory for line number `index`, which will be wanted soon."""

    def code(context, builder, signature, args):
        number, pointer, lanes = (
            ir.IntType(32),
            ir.IntType(8).as_pointer(),
            8 * LINE // lines.dtype.bitwidth,
        )
        start = context.make_array(lines)(context, builder, args[0]).data
        place = builder.mul(
            context.cast(builder, args[1], index, types.intp), ir.IntType(64)(lanes)
        )
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(start, [place]), pointer)
        # to read, all caches, data
        builder.call(prefetch, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(lines, index), code


def to_lines(V: Array) -> Array:
    """V (m, k) as lines (m · nb, lanes): rows one after the other, each filled up with zeros; read-only."""
    m, k = V.shape
    lanes = LINE // V.dtype.itemsize
    nb = -(-k // lanes)
    lines = empty_lines(m, nb, V.dtype).reshape(m, nb * lanes)
    lines[:, :k] = V
    lines[:, k:] = 0
    return freeze(lines.reshape(-1, lanes))


def freeze(array: Array) -> Array:
    """A read-only view. All inputs of kernels are read-only, so that a mapped file needs no compilation of its own."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@kernel(forceinline=True)
def dot(U, u, V, v, nb):
    """Σ over nb lines, from line u of U and line v of V."""
    sums = madd(load(U, u), load(V, v), zero(V))
    for block in range(1, nb):
        sums = madd(load(U, u + block), load(V, v + block), sums)
    return total(sums)
