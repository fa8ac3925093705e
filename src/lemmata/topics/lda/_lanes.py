"""Operations on a cache line for sampling, beside simd.py: running sums, and the number of lanes below a number."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from lemmata.linalg.simd import operation, spread_over


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
        lanes, bounds = x.lanes, spread_over(context, builder, x, args[1], number)
        marks = builder.bitcast(builder.fcmp_ordered("<=", args[0], bounds), ir.IntType(lanes))
        count = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.IntType(lanes), [ir.IntType(lanes)]),
            f"llvm.ctpop.i{lanes}",
        )
        return builder.zext(builder.call(count, [marks]), ir.IntType(64))

    return types.uint64(x, number), code
