"""What kernels over rows do with cache lines, besides `_kernels`: single numbers, sums, products, choices, prefetching."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from lemmata.linalg._kernels import LINE, Line, empty_lines, load, operation, zero

Array = np.ndarray


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
        kind = context.get_value_type(signature.return_type)
        nothing, lanes = ir.Constant(kind, ir.Undefined), signature.return_type.lanes
        first = builder.insert_element(nothing, context.cast(builder, args[1], number, lines.dtype), ir.IntType(32)(0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))

    return Line(lines.dtype)(lines, number), code


@operation
def minus(_, x, y):
    """x − y for lines."""

    def code(context, builder, signature, args):
        return builder.fsub(*args)

    return y(x, y), code


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
            nothing, places = ir.Constant(line.type, ir.Undefined), ir.VectorType(ir.IntType(32), lanes)
            low = builder.shuffle_vector(line, nothing, ir.Constant(places, list(range(lanes))))
            high = builder.shuffle_vector(line, nothing, ir.Constant(places, list(range(lanes, 2 * lanes))))
            line = builder.fadd(low, high)
        return builder.extract_element(line, ir.IntType(32)(0))

    return x.dtype(x), code


@operation
def root(_, x):
    """√x for lines."""

    def code(context, builder, signature, args):
        kind, name = args[0].type, f"llvm.sqrt.v{x.lanes}f{x.dtype.bitwidth}"
        return builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name), args)

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
        number, pointer, lanes = ir.IntType(32), ir.IntType(8).as_pointer(), 8 * LINE // lines.dtype.bitwidth
        start = context.make_array(lines)(context, builder, args[0]).data
        place = builder.mul(context.cast(builder, args[1], index, types.intp), ir.IntType(64)(lanes))
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(start, [place]), pointer)
        builder.call(prefetch, [address, number(0), number(3), number(1)])  # to read, all caches, data
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
    return frozen(lines.reshape(-1, lanes))


def frozen(array: Array) -> Array:
    """A read-only view. All inputs of kernels are read-only, so that a mapped file needs no compilation of its own."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def dot(U, u, V, v, nb):
    """Σ over nb lines, from line u of U and line v of V."""
    sums = madd(load(U, u), load(V, v), zero(V))
    for block in range(1, nb):
        sums = madd(load(U, u + block), load(V, v + block), sums)
    return total(sums)
