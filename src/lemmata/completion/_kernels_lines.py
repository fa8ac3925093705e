"""What the row kernels do with cache lines, beside what linalg/_kernels does: single numbers, sums, products, prefetching."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from lemmata.linalg._kernels import LINE, empty_lines, load, operation, zero

Array = np.ndarray


@operation
def at(_, lines, index):
    """Number `index` of an array seen as flat; without numba's look whether the index is negative."""

    def code(context, builder, signature, args):
        start = context.make_array(lines)(context, builder, args[0]).data
        return builder.load(builder.gep(start, [context.cast(builder, args[1], index, types.intp)]))

    return lines.dtype(lines, index), code


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
