"""Operations on a cache line for sampling, beside simd.py: products, running sums, and the number of lanes below a number."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from lemmata.linalg.simd import operation


@operation
def times(_, x, y):
    """x·y for lines, lane by lane."""

    def code(context, builder, signature, args):
        return builder.fmul(*args)

    return x(x, y), code


@operation
def running(_, x):
    """The running sums of a line: lane j holds x_0 + … + x_j. By doubling: log2(lanes) additions."""

    def code(context, builder, signature, args):
        line, lanes, shift = args[0], x.lanes, 1
        nothing = ir.Constant(line.type, [0.0] * lanes)
        kind = ir.VectorType(ir.IntType(32), lanes)
        while shift < lanes:
            places = [lanes] * shift + list(range(lanes - shift))  # `lanes` is a zero of `nothing`
            line = builder.fadd(
                line, builder.shuffle_vector(line, nothing, ir.Constant(kind, places))
            )
            shift *= 2
        return line

    return x(x), code


@operation
def lanes_up_to(_, x, number):
    """Number of lanes of x that are at most `number`."""

    def code(context, builder, signature, args):
        kind, lanes = args[0].type, x.lanes
        nothing = ir.Constant(kind, ir.Undefined)
        bound = context.cast(builder, args[1], number, x.dtype)
        first = builder.insert_element(nothing, bound, ir.IntType(32)(0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        bounds = builder.shuffle_vector(first, nothing, places)
        marks = builder.bitcast(builder.fcmp_ordered("<=", args[0], bounds), ir.IntType(lanes))
        count = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.IntType(lanes), [ir.IntType(lanes)]),
            f"llvm.ctpop.i{lanes}",
        )
        return builder.zext(builder.call(count, [marks]), ir.IntType(64))

    return types.uint64(x, number), code
