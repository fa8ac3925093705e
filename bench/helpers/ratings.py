"""Ratings to measure on: generated ones of any size, and MovieLens where it is at hand."""

from __future__ import annotations

import numpy as np

from lemmata.completion import Observed


def ratings(n_users, n_items, n, seed=0, rank=12):
    """Triplets to train on and a tenth as many to test: popularity follows a power law; low rank, biases, noise, half stars.

    The same law as the script that measured the peers, so that its figures can be compared.
    """
    rng = np.random.default_rng(seed)
    total = int(n * 1.1)
    activity = rng.lognormal(0, 1.2, n_users)
    popularity = 1 / (np.arange(n_items) + 20.0) ** 0.9
    chance = [np.cumsum(share / share.sum()) for share in (activity, popularity)]
    places = np.empty(0, np.int64)
    while len(places) < total:
        u, i = (np.searchsorted(c, rng.random(total)).clip(0, len(c) - 1) for c in chance)
        places = np.unique(np.concatenate([places, u * n_items + i]))
    places = rng.permutation(places)[:total]
    u, i = places // n_items, places % n_items
    U = rng.standard_normal((n_users, rank), dtype=np.float32)
    V = rng.standard_normal((n_items, rank), dtype=np.float32)
    r = 3.5 + 0.4 * rng.standard_normal(n_users)[u] + 0.5 * rng.standard_normal(n_items)[i]
    for factor in range(rank):
        r += 0.7 / np.sqrt(rank) * U[u, factor] * V[i, factor]
    r += 0.7 * rng.standard_normal(total)
    r = np.clip(np.round(r * 2) / 2, 0.5, 5.0).astype(np.float32)
    u, i = u.astype(np.int32), i.astype(np.int32)
    return (u[:n], i[:n], r[:n]), (u[n:], i[n:], r[n:])


def movielens(name):
    """Observed entries of MovieLens "small" or "1m", or None where it is not on this machine."""
    from lemmata import data

    load = {"small": data.movielens_small, "1m": data.movielens_1m}[name]
    try:
        return Observed.of(load())
    except data.DataNotFound:
        return None
