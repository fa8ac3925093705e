"""Claims about samples, whoever drew them: do they pass for data, reach its modes, obey their classes, or copy training rows?

They compare three tables: samples, the rows that the generator was trained on, and new rows that it never saw. Samples are
given, or drawn by a model of ours; its new rows are X_test, or those kept from training. Columns are taken in units of their
deviation. Classifiers and centres come from searches outside of the trusted base, trained on rows that
are not judged: a weak one makes a claim say less (it names what was tried), never something wrong. **A classifier that tells
samples apart proves a difference, one that fails to does not prove equality** (CIL (5.35): it bounds JS from below).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from lemmata.audit.generate.densities import cost_of_row, require_no_more_than_chance, split_of
from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.kernel.concentration import clopper_pearson, mean_at_least, union_bound
from lemmata.audit.nets.modules import rows_of
from lemmata.audit.trust.near_rows import cost_of_nearness
from lemmata.audit.trust.seen_rows import Memory, require_unseen, row_keys

Array = np.ndarray

RISK = 0.05
MOST = 4000  # rows of each table that are looked at
OWN = 1000  # samples that a model of ours is asked for
KNOWN = 50_000  # training rows among which copied ones are looked for
LEAST = 100  # rows of each half that a classifier is judged by
TOLD_APART = 0.6  # share of rows that a classifier may put on the right side
CLIP = 1e-3  # probabilities below it count as this
PART = 0.25  # of a mode's share of new rows, that samples have to give it
PER_MODE = 100  # new rows, so that a quarter of a mode can be told from nothing
MODES = 20
COPY_RISK = 0.01
COPIED = 0.2  # share of samples
SHUFFLES = 999
BEHIND = 0.05  # accuracy on samples below that on new rows
AT_ONCE = 2**22  # distances
TRAINING = 2000.0  # multiplications that a classifier takes for every number that it learns from
NEW_NEEDED = "rows that the generator never saw are needed: pass certify(samples, X, X_test=…)"
NO_SEARCHES = "searches are switched off (lemmata.config(searches=False))"


class Tables(NamedTuple):
    """At most MOST rows of each, flat, in units of the deviation of the rows of data; classes as they were given."""

    samples: Array
    classes: Array | None  # those the samples were asked to have
    train: Array
    train_classes: Array | None
    known: Array  # training rows, up to KNOWN of them
    new: Array
    new_classes: Array | None
    trained: int  # rows that the generator was trained on


class Drawn(NamedTuple):
    """Samples, and the classes that they were asked to have."""

    rows: Array
    classes: Array | None


def _cost_of_drawing(fit: k.Fit) -> float:
    if fit.get("samples") is not None:
        return fit.samples.size
    products = fit.get("draw_work")
    return OWN * (cost_of_row(fit) if products is None else products / k.PRODUCTS)


@k.fact(cost=_cost_of_drawing)
def drawn_rows(fit: k.Fit) -> Drawn:
    """Return the samples that were given, or OWN draws of the model. CannotTell where they are not finite."""
    if fit.get("samples") is not None:
        rows = rows_of(fit.samples, np.arange(fit.samples.shape[0]))
        found = Drawn(rows, fit.get("sample_classes"))
    elif (drawn := fit.witness("draw_rows", OWN)) is not None:
        found = Drawn(*drawn)
    else:
        raise k.CannotTell(NO_SEARCHES)
    if found.rows.shape[1:] != (fit.data.shape[1],) or not np.isfinite(found.rows).all():
        raise k.CannotTell("samples have another shape than the rows, or hold numbers that are not finite")  # fmt: skip
    return found


def _cost_of_tables(fit: k.Fit) -> float:
    return 4.0 * fit.data.size + cost_of_nearness(*fit.data.shape)


@k.fact(cost=_cost_of_tables, needs=(drawn_rows,))
def tables(fit: k.Fit) -> Tables:
    """Return the three tables. CannotTell without new rows, or where these were trained on."""
    test, classes = fit.get("X_test"), fit.get("y_test")
    y = None if fit.y is None else np.asarray(fit.y)
    every = rows_of(fit.data, np.arange(fit.data.shape[0]))
    if test is not None:
        others = rows_of(test, np.arange(test.shape[0]))
    elif fit.get("test_rows_") is not None:
        kept, held = split_of(fit)
        every, others = every[kept], every[held]
        y, classes = (None, None) if y is None else (y[kept], y[held])
    else:
        raise k.CannotTell(NEW_NEEDED)
    found, rng = drawn_rows(fit), np.random.default_rng(fit.data.shape[0])

    def some(rows: Array, classes: Any) -> tuple[Array, Array | None]:
        numbers = np.sort(rng.choice(len(rows), min(len(rows), MOST), replace=False))
        return rows[numbers], None if classes is None else np.asarray(classes)[numbers]

    train, train_classes = some(every, y)
    new, new_classes = some(others, classes)
    samples, classes = some(found.rows, found.classes)
    if test is not None:
        require_unseen(Memory(every, new, "the training rows", True))
    else:
        require_no_more_than_chance(*row_keys(every, new))
    known = every if len(every) <= KNOWN else rng.permutation(every)[:KNOWN]
    spread = np.concatenate([train, new]).astype(np.float64).std(axis=0)
    spread[spread == 0] = 1.0
    samples, train, new, known = (rows / spread for rows in (samples, train, new, known))
    return Tables(samples, classes, train, train_classes, known, new, new_classes, len(every))


def classify(fit: k.Fit, name: str, *arguments: Any) -> Callable[[Array], Array]:
    """Return a classifier that a search trained; its answers are checked by shape and judged on other rows."""
    found = fit.witness(name, *arguments)
    if found is None:
        raise k.CannotTell(NO_SEARCHES)
    return found


# --- a classifier between samples and data ----------------------------------------------------------------------------


def _cost_of_classifier(fit: k.Fit) -> float:
    return TRAINING * min(fit.data.shape[0], MOST) * fit.data.shape[1]


@k.statistical(
    f"a fresh classifier tells samples from new rows at most {TOLD_APART:.0%} of the time",
    "CIL (5.32), (5.35); Clopper & Pearson 1934",
    confidence=1 - RISK,
    cost=_cost_of_classifier,
    needs=(tables,),
)
def passes_for_data(fit: k.Fit) -> k.Evidence:
    """Trained on one half of both tables, judged on the other half; its log loss bounds the divergence from below."""
    found = tables(fit)
    half = min(len(found.samples), len(found.new)) // 2
    if half < LEAST:
        raise k.CannotTell(f"{half} rows a half: {LEAST} samples and new rows are needed in each")
    rng = np.random.default_rng(half)
    real, drawn = (rng.permutation(part)[: 2 * half] for part in (found.new, found.samples))
    labels = np.repeat([1, 0], half)
    tell = classify(fit, "tell_apart", np.concatenate([real[:half], drawn[:half]]), labels)
    p = np.asarray(tell(np.concatenate([real[half:], drawn[half:]])), dtype=np.float64)
    if p.shape != (2 * half,) or not ((p >= 0) & (p <= 1)).all():
        raise k.CannotTell("the classifier found gives no probabilities")
    right = int(((p > 0.5) == labels).sum())
    low, high = clopper_pearson(right, 2 * half, 2 * RISK)  # each end at RISK: only one is used
    own = np.log(np.clip(np.where(labels == 1, p, 1 - p), CLIP, 1 - CLIP)).reshape(2, half).mean(0)
    least, most = math.log(2 * CLIP), math.log(2 * (1 - CLIP))
    js = max(mean_at_least(own + math.log(2), RISK, least, most), 0.0)
    note = f"{right:,} of {2 * half:,} rows right; JS is at least {js:.2g} nats, of ln 2 = 0.69"
    if low <= TOLD_APART < high:
        return k.unknown(f"{note}: too few to tell", right / (2 * half), "share right")
    advice = "look at the rows it is surest of; train longer, or take a larger network"
    measured = high if high <= TOLD_APART else low
    return k.at_most(measured, TOLD_APART, advice, unit="share right", note=note)


# --- modes and classes ------------------------------------------------------------------------------------------------


@k.statistical(
    f"every mode of the data gets at least {PART:g} of its share among new rows",
    "CIL 5.4; Clopper & Pearson 1934, all modes at once",
    confidence=1 - RISK,
    cost=_cost_of_classifier,
    needs=(tables,),
)
def modes_covered(fit: k.Fit) -> k.Evidence:
    """A mode is a class, by a classifier fitted to the training rows, or a cell of k-means on them."""
    found = tables(fit)
    if found.train_classes is not None:
        names = np.unique(found.train_classes)
        sort = classify(fit, "sort_by_class", found.train, found.train_classes)
        counts = [_count(sort(rows), names) for rows in (found.samples, found.new)]
        what = "class"
    else:
        count = int(np.clip(len(found.new) // PER_MODE, 2, MODES))
        centres = fit.witness("mode_centres", found.train, count)
        if centres is None or np.shape(centres)[1:] != found.train.shape[1:]:
            raise k.CannotTell("no centres of modes were found")
        names, what = np.arange(len(centres)), "cell"
        counts = [
            _count(cdist(rows, centres).argmin(1), names) for rows in (found.samples, found.new)
        ]
    risk = 2 * union_bound(2 * len(names), RISK)  # one end of two intervals of every mode is used
    drawn, real = (
        clopper_pearson(one, len(rows), risk)
        for one, rows in zip(counts, (found.samples, found.new), strict=True)
    )
    with np.errstate(divide="ignore"):
        lowest, highest = drawn[0] / real[1], drawn[1] / real[0]
    at = int(highest.argmin() if highest.min() < PART else lowest.argmin())
    shares = [100 * one[at] / len(rows) for one, rows in zip(counts, (found.samples, found.new), strict=True)]  # fmt: skip
    note = f"{what} {names[at]} of {len(names)}: {shares[0]:.1f} % of samples, {shares[1]:.1f} % of new rows"
    unit = "share / share of new rows"
    if highest.min() >= PART > lowest.min():
        return k.unknown(f"{note}: too few to tell", lowest.min(), unit)
    advice = f"modes are missing: draw rows of that {what} and look at them; a GAN: r1, other rates, extragradient"
    measured = highest.min() if highest.min() < PART else lowest.min()
    return k.at_least(measured, PART, advice, unit=unit, note=note)


def _count(found: Any, names: Array) -> Array:
    """How many rows were sorted under each of the names."""
    return (np.asarray(found)[:, None] == names).sum(axis=0)


@k.statistical(
    f"a classifier gives samples their class at most {100 * BEHIND:g} points less often than new rows",
    "CIL 5.4; Clopper & Pearson 1934",
    confidence=1 - RISK,
    cost=_cost_of_classifier,
    needs=(tables,),
)
def classes_obeyed(fit: k.Fit) -> k.Evidence:
    found = tables(fit)
    if found.classes is None or found.new_classes is None or found.train_classes is None:
        raise k.CannotTell(
            "classes are needed: certify(Samples(rows, classes), X, y, X_test=…, y_test=…)"
        )
    sort = classify(fit, "sort_by_class", found.train, found.train_classes)
    parts = ((found.new, found.new_classes), (found.samples, found.classes))
    right = [int((np.asarray(sort(rows)) == classes).sum()) for rows, classes in parts]
    real, drawn = (clopper_pearson(hits, len(part[0]), RISK) for hits, part in zip(right, parts, strict=True))  # fmt: skip
    shares = [100 * hits / len(part[0]) for hits, part in zip(right, parts, strict=True)]
    note = f"right on {shares[1]:.1f} % of samples, {shares[0]:.1f} % of new rows"
    most, least = real[1] - drawn[0], real[0] - drawn[1]  # both intervals, one end of each
    if least <= BEHIND < most:
        return k.unknown(f"{note}: too few to tell", (shares[0] - shares[1]) / 100, "points behind")
    advice = "train longer, or raise guidance"
    return k.at_most(most if most <= BEHIND else least, BEHIND, advice, unit="behind", note=note)


# --- copies -----------------------------------------------------------------------------------------------------------


def _cost_of_copies(fit: k.Fit) -> float:
    test = fit.get("X_test")
    n = min(fit.data.shape[0], KNOWN) + (0 if test is None else test.shape[0])
    asked = OWN if fit.get("samples") is None else min(fit.samples.shape[0], MOST)
    return asked * n * (5.0 + fit.data.shape[1] / k.PRODUCTS) + 10.0 * SHUFFLES * n


@k.statistical(
    "samples lie no nearer to training rows than to rows never seen",
    "permutation test of the rows' labels; Clopper & Pearson 1934",
    confidence=1 - COPY_RISK,
    cost=_cost_of_copies,
    needs=(tables,),
)
def not_copied(fit: k.Fit) -> k.Evidence:
    """Of n training and m new rows, which is the nearest to each sample? A training row, for a share q of them.

    Had the generator not seen the training rows, both kinds would be exchangeable: the rank of the true labelling among
    shuffled ones is uniform, whatever the samples look like (blur does not fool it). With a share c of copies q = c + (1 − c)h,
    h the share of honest samples: some rows are nearest to many of them, so h is n/(n + m) or as low as shuffled labels go.
    All training rows have to be among them, or c is divided by the share that is.
    """
    found = tables(fit)
    n, rng = len(found.known), np.random.default_rng(len(found.new))
    rows = np.concatenate([found.known, found.new])
    order = rng.permutation(len(rows))  # equal distances go to either kind alike
    hits = np.bincount(order[nearest_rows_of(found.samples, rows[order])], minlength=len(rows))
    trained, s = int(hits[:n].sum()), len(found.samples)
    shuffled = np.array([rng.permutation(hits)[:n].sum() for _ in range(SHUFFLES)])
    p = (1 + int((shuffled >= trained).sum())) / (1 + SHUFFLES)
    looked_at = n / found.trained

    def copies(q: float, h: float) -> float:
        return float(np.clip((q - h) / (1 - h) / looked_at if h < 1 else 1.0, 0.0, 1.0))

    share = copies(trained / s, n / len(rows))
    low = float(np.quantile(shuffled, COPY_RISK / 2)) / s
    high = copies(clopper_pearson(trained, s, COPY_RISK)[1], low)
    note = (
        f"nearest to a training row: {trained:,} of {s:,} samples, {100 * n / len(rows):.0f} % expected, so about "
        f"{100 * share:.0f} % are copies"
    )
    if p < COPY_RISK:
        advice = "the generator remembers rows: stop earlier, take more rows or a smaller network; do not publish these samples"
        return k.at_least(p, COPY_RISK, advice, unit="p of shuffled labels", note=note)
    if high > COPIED:
        why = f"{note}, at most {100 * high:.0f} %: more samples and new rows would tell"
        return k.unknown(why, share, "share")
    return k.at_most(high, COPIED, unit="share of copies at most", note=note)


def nearest_rows_of(samples: Array, rows: Array) -> Array:
    """The number of the row nearest to each sample."""
    middle = rows.mean(axis=0)  # products cancel less around 0
    samples, rows = samples - middle, rows - middle
    half, step = np.square(rows).sum(axis=1) / 2, max(1, AT_ONCE // len(rows))
    starts = range(0, len(samples), step)
    return np.concatenate([(half - samples[a : a + step] @ rows.T).argmin(axis=1) for a in starts])


def _unsound(fit: k.Fit) -> Iterator[str]:
    wrong = sum(int((~np.isfinite(rows)).any(axis=1).sum()) for rows, _ in fit.samples)
    if wrong:
        yield f"{wrong:,} samples hold numbers that are not finite"


# of models that draw: asked for samples when a claim needs them
DRAWN_CLAIMS: tuple[Any, ...] = (passes_for_data, modes_covered, not_copied, classes_obeyed)
SAMPLE_CLAIMS: tuple[Any, ...] = (
    attributes_sound({}, _unsound),
    statements_true(lambda fit: {}, cost=k.free),
    *DRAWN_CLAIMS,
)
