"""Loops of sparse coding that NumPy cannot make quick: one signal at a time, a few atoms of many. Twins: _twins.py."""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel

AT_ONCE = 8  # atoms that join the working set of an ℓ1 code at a time, at least


@kernel(fastmath={"contract", "nsz"})
def pursue_into(index, value, start, stop, X, D, G, C, squares, most, target, dependent):
    """Batch OMP (Rubinstein 2008) of rows start ≤ i < stop; C = XDᵀ is overwritten by the correlations of residuals.

    P_t holds the products of all atoms with the t-th orthonormal direction, L the chosen atoms in those directions: a new atom
    costs s·k, and no signal is touched before the code is known. Unused places: index −1, value 0.
    """
    k, d = D.shape
    P = np.empty((most, k), D.dtype)
    L = np.zeros((most, most), D.dtype)
    y = np.empty(most, D.dtype)
    g = np.empty(most, D.dtype)
    r = np.empty(d, D.dtype)
    eps = np.finfo(D.dtype).eps
    for i in range(start, stop):
        h, chosen = C[i], index[i]
        whole = squares[i]
        left = whole
        floor = 8 * np.sqrt(d * whole) * eps  # correlations below are rounding
        slack = 64 * eps * whole
        s = 0
        solved = False
        while s < most:
            j, best = 0, h[0] * 0
            for c in range(k):
                size = abs(h[c])
                if size > best:
                    j, best = c, size
            if best <= floor or (target > 0 and whole <= target):
                break
            free = G[j, j]
            for t in range(s):
                L[s, t] = P[t, j]
                free -= L[s, t] * L[s, t]
            if free <= dependent:
                break
            L[s, s] = np.sqrt(free)
            scale = 1 / L[s, s]
            p = P[s]
            row = G[j]
            for c in range(k):
                p[c] = row[c] * scale
            t = 0
            while t + 1 < s:  # two directions at a time: half the traffic
                a, b = L[s, t] * scale, L[s, t + 1] * scale
                p0, p1 = P[t], P[t + 1]
                for c in range(k):
                    p[c] -= a * p0[c] + b * p1[c]
                t += 2
            if t < s:
                a = L[s, t] * scale
                p0 = P[t]
                for c in range(k):
                    p[c] -= a * p0[c]
            step = h[j] * scale
            y[s] = step
            for c in range(k):
                h[c] -= step * p[c]
            left -= step * step
            chosen[s] = j
            s += 1
            for t in range(s):
                h[chosen[t]] = 0
            solved = False
            if target > 0 and left <= target + slack:
                rest = _solve_into(g, r, X[i], D, chosen, L, y, s)
                solved = True
                if rest <= target:
                    break
        if not solved:
            _solve_into(g, r, X[i], D, chosen, L, y, s)
        for t in range(most):
            value[i, t] = g[t] if t < s else 0
            if t >= s:
                chosen[t] = -1


@kernel(fastmath={"contract", "nsz"})
def _solve_into(g, r, x, D, chosen, L, y, s):
    """g = L⁻ᵀy, then one step of refinement on the residual itself; returns ‖x − g D_chosen‖² before that step."""
    for t in range(s - 1, -1, -1):
        total = y[t]
        for u in range(t + 1, s):
            total -= L[u, t] * g[u]
        g[t] = total / L[t, t]
    d = len(x)
    for c in range(d):
        r[c] = x[c]
    for t in range(s):
        atom = D[chosen[t]]
        for c in range(d):
            r[c] -= g[t] * atom[c]
    rest = 0.0
    for c in range(d):
        rest += r[c] * r[c]
    b = np.empty(s, D.dtype)
    for t in range(s):
        atom = D[chosen[t]]
        total = x[0] * 0
        for c in range(d):
            total += atom[c] * r[c]
        for u in range(t):
            total -= L[t, u] * b[u]
        b[t] = total / L[t, t]
    for t in range(s - 1, -1, -1):
        for u in range(t + 1, s):
            b[t] -= L[u, t] * b[u]
        b[t] /= L[t, t]
        g[t] += b[t]
    return rest


@kernel(fastmath={"contract", "nsz"})
def descend_into(Z, start, stop, G, C, squares, alpha, tol, most, positive):
    """ℓ1 codes of rows start ≤ i < stop by coordinate descent on a growing working set, to a duality gap of tol·½‖x‖².

    Only the Gram matrix of the working set is touched inside; h = q − Gz of all atoms is formed once a round, and says
    what the gap is and which atoms join.
    """
    k = G.shape[0]
    h = np.empty(k, G.dtype)
    sub = np.empty((k, k), G.dtype)
    act = np.empty(k, np.int64)
    inside = np.zeros(k, np.bool_)
    z = np.empty(k, G.dtype)
    ha = np.empty(k, G.dtype)
    order = np.empty(k, np.int64)
    tiny = 4 * np.finfo(G.dtype).eps
    for i in range(start, stop):
        q, m = C[i], 0
        for c in range(k):
            h[c] = q[c]
            inside[c] = False
        goal = max(0.5 * tol, tiny) * squares[i]
        inner = 0.1
        for _ in range(most):
            # the gap at z, from h
            zq, zh, one, top = 0.0, 0.0, 0.0, 0.0
            for a in range(m):
                zq += z[a] * q[act[a]]
                zh += z[a] * h[act[a]]
                one += abs(z[a])
            for c in range(k):
                size = h[c] if positive else abs(h[c])
                if size > top:
                    top = size
            rr = max(squares[i] - zq - zh, 0.0)
            xr = squares[i] - zq
            scale = xr / rr if rr > 0 else 1.0
            if top > 0 and scale * top > alpha:
                scale = alpha / top
            scale = max(scale, 0.0)
            gap = 0.5 * rr + alpha * one - scale * xr + 0.5 * scale * scale * rr
            if gap <= goal:
                break
            # atoms that violate their bound join, the worst first
            fresh = 0
            for c in range(k):
                size = h[c] if positive else abs(h[c])
                if not inside[c] and size > alpha:
                    order[fresh] = c
                    fresh += 1
            room = max(AT_ONCE, m)
            for pick in range(min(fresh, room)):
                for other in range(pick + 1, fresh):
                    if abs(h[order[other]]) > abs(h[order[pick]]):
                        order[pick], order[other] = order[other], order[pick]
                c = order[pick]
                inside[c] = True
                act[m] = c
                z[m] = 0
                for a in range(m + 1):
                    sub[m, a] = G[c, act[a]]
                    sub[a, m] = sub[m, a]
                m += 1
            if fresh == 0:
                inner *= 0.1
            for a in range(m):
                ha[a] = h[act[a]]
            _sweep(z, ha, sub, m, alpha, inner * goal, most, positive)
            for c in range(k):
                h[c] = q[c]
            for a in range(m):
                if z[a] != 0:
                    row = G[act[a]]
                    for c in range(k):
                        h[c] -= z[a] * row[c]
        for a in range(m):
            Z[i, act[a]] = z[a]


@kernel(fastmath={"contract", "nsz"})
def _sweep(z, h, sub, m, alpha, enough, most, positive):
    """Cyclic descent on m coordinates until a sweep gains less than `enough`; h = q − Gz of them is kept current."""
    for _ in range(most):
        gained = 0.0
        for a in range(m):
            own = sub[a, a]
            aim = h[a] + own * z[a]
            if aim > alpha:
                new = (aim - alpha) / own
            elif aim < -alpha and not positive:
                new = (aim + alpha) / own
            else:
                new = aim * 0
            move = new - z[a]
            if move != 0:
                z[a] = new
                row = sub[a]
                for b in range(m):
                    h[b] -= move * row[b]
                gained += own * move * move
        if gained <= enough:
            break


@kernel(fastmath={"contract", "nsz"})
def improve_atoms_into(D, A, B, least):
    """One sweep: each atom becomes the best unit vector, the others fixed, for ½tr(DᵀAD) − tr(DᵀB); unused ones stay."""
    k, d = D.shape
    u = np.empty(d, D.dtype)
    for j in range(k):
        if A[j, j] <= least:
            continue
        for c in range(d):
            u[c] = B[j, c] + A[j, j] * D[j, c]
        for i in range(k):
            a = A[j, i]
            if a != 0:
                for c in range(d):
                    u[c] -= a * D[i, c]
        length = 0.0
        for c in range(d):
            length += u[c] * u[c]
        length = np.sqrt(length)
        if length > 0:
            for c in range(d):
                D[j, c] = u[c] / length
