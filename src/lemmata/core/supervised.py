"""Models that predict: the door for y, and what regressors and classifiers share besides.

    class Ridge(Regressor): …          data.targets: floats, (n,) or (n, outputs)
    class LogisticRegression(Classifier): …    data.targets: the place of each label in classes_, (n,)

Both go the one path of `Model`. `fit` and `certify` take y, which travels beside the rows as `data.targets` (blocks of both:
`data.triples()`), so that claims find it in `fit.y` and a checkpoint knows it. y is in memory: one number a row is little, even
where the rows are a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.certificate import Certificate
from lemmata.core.engine import alone
from lemmata.core.estimator import Model
from lemmata.core.parameters import fitted
from lemmata.core.validation import FLOATS, all_finite

Array = np.ndarray


class Supervised(Model):
    """A model that is fitted to rows and what is to be predicted of them."""

    multi_output: ClassVar[bool] = False
    fit_call = "fit(X, y)"

    def fit(self, X, y, sample_weight=None):  # type: ignore[override]
        """Fit the model to X and y, and check the claims about it.

        Parameters
        ----------
        X : array, sparse matrix, np.memmap, dask array, or a re-iterable of row blocks, of shape (n_samples, n_features)
        y : array of shape (n_samples,), or (n_samples, n_outputs) where the model predicts several
        sample_weight : array of shape (n_samples,), optional
            How many times each row counts.

        Returns
        -------
        self : with `certificate_`, `trace_`, `stopped_`, `n_iter_` and the model's own attributes
        """
        return super().fit(X, y, sample_weight)

    def certify(
        self, X, y=None, sample_weight=None, *, seconds: float | None = None
    ) -> Certificate:
        """Check every claim about this fit on X and y, usually the training data.

        seconds : float, optional
            How long that may take; claims that need more stay *not checked*. By default five times the work of the fit, or
            about half a second if that is more, counted in work and not in time, so that every machine says the same.
        """
        check_is_fitted(self)
        data = self._validate_pair(X, y, sample_weight, reset=False)
        return self._certificate(data, seconds=seconds)

    # --- input ---

    def _validate_pair(
        self, X, y, sample_weight=None, reset: bool = True, new_classes: bool = True
    ) -> Blocks:
        """Rows, weights and targets, checked once.

        reset : False for a fitted model
        new_classes : whether, with `reset`, y decides what the classes are; False where they were passed
        """
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )
        data = self._validate_rows(X, sample_weight, reset=reset)
        y = np.asarray(y) if is_dask(y) else y
        targets = self._targets(y, reset and new_classes)
        if len(targets) != data.shape[0]:
            check_consistent_length(np.broadcast_to(0, data.shape[0]), targets)  # says so
        return data.with_targets(targets)

    def _targets(self, y: Any, reset: bool) -> Array:
        """y as the algorithm and the claims read it."""
        raise TypeError(f"{type(self).__name__} does not say what its targets are.")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = self.multi_output
        return tags

    # --- output ---

    def _apply(self: Any, X: Any, function: Any) -> Any:
        """function(rows) of every block, one below the other; of a dask array, lazily. BLAS has one thread, as in a fit."""
        check_is_fitted(self)
        data, function = self._validate_rows(X, reset=False), alone(function)
        if is_dask(data.source):
            one = np.asarray(function(np.zeros((1, data.shape[1]), data.dtype)))  # shows the shape
            if one.ndim == 1:
                return data.source.map_blocks(function, drop_axis=1, dtype=one.dtype)
            chunks = (data.source.chunks[0], one.shape[1:])
            return data.source.map_blocks(function, chunks=chunks, dtype=one.dtype)
        parts = [np.asarray(function(rows)) for rows, _ in data]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Regressor(RegressorMixin, Supervised):
    """Predicts numbers. `data.targets` are floats: float32 if y is, else float64."""

    flattens_column: ClassVar[bool] = False  # y of shape (n, 1) is a vector

    def _targets(self, y: Any, reset: bool) -> Array:
        if type(y) is np.ndarray and y.ndim == 1 and y.dtype in FLOATS and len(y) and all_finite(y):
            return y  # as it is, after what takes a tenth of the time of scikit-learn's door
        if not self.multi_output or (self.flattens_column and np.asarray(y).shape[1:] == (1,)):
            y = column_or_1d(y, warn=True)
        return check_array(
            y, dtype=[np.float64, np.float32], ensure_2d=False, input_name="y", estimator=self
        )


class Classifier(ClassifierMixin, Supervised):
    """Predicts one label of `classes_`. `data.targets` are the places of the labels there."""

    COMMON_STORED: ClassVar[Mapping[str, str | type]] = {
        **Model.COMMON_STORED,
        "classes_": "c labels",
    }
    classes_: Any = fitted()  # an array; a list of arrays where several things are predicted

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from a file, whose classes have to be told apart."""
        model = super().restored(parameters, attributes)
        classes = model.classes_
        if isinstance(classes, list) and not (classes and cls.multi_output):
            raise ValueError("classes_ is a list, of a model that predicts one label.")
        for labels in classes if isinstance(classes, list) else [classes]:
            if len(labels) < 2 or len(np.unique(labels)) < len(labels):
                raise ValueError(
                    f"classes_ are {list_classes(labels)}: a classifier tells two or more apart."
                )
        return model

    def _targets(self, y: Any, reset: bool) -> Array:
        whole = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iub"
        if not whole:
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
        if not reset:
            return encode(y, self.classes_)
        self.classes_, places = find_classes(y)
        if whole and 2 * len(self.classes_) > len(y):  # scikit-learn wonders about so many classes
            check_classification_targets(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class only, {list_classes(self.classes_)}; "
                f"{type(self).__name__} needs at least two classes."
            )
        return places

    def _weighted_by_class(self, data: Blocks) -> Blocks:
        """The weights times those of the classes: `class_weight` as scikit-learn understands it."""
        chosen = getattr(self, "class_weight", None)
        if chosen is None:
            return data
        assert data.targets is not None
        by_row = class_weights(chosen, self.classes_, data.targets, data.weights)[data.targets]
        return data.weighted(by_row if data.weights is None else by_row * data.weights)


class SeveralOutputsClassifier(Classifier):
    """Predicts a label for each column of y; `classes_` is then a list."""

    multi_output = True

    def _targets(self, y: Any, reset: bool) -> Array:
        y = np.asarray(y)
        if y.ndim != 2 or y.shape[1] == 1:
            return super()._targets(y, reset)
        check_classification_targets(y)
        if not reset:
            pairs = zip(y.T, self.classes_, strict=True)
            return np.stack([encode(column, classes) for column, classes in pairs], axis=1)
        found = [np.unique(column, return_inverse=True) for column in y.T]
        self.classes_ = [classes for classes, _ in found]
        return np.stack([places for _, places in found], axis=1)


class MultilabelClassifier(Classifier):
    """Predicts one label, or any number of them: y is then a matrix of 0 and 1 with a column for each."""

    def _targets(self, y: Any, reset: bool) -> Array:
        if not is_multilabel(y):
            return super()._targets(np.asarray(y), reset)
        y = np.asarray(y.todense() if sp.issparse(y) else y)
        check_array(y, input_name="y", estimator=self)
        if reset:
            if y.shape[1] < 2:
                raise ValueError("an indicator matrix of one column is a vector: pass y[:, 0].")
            self.classes_ = np.arange(y.shape[1])
        elif y.shape[1] != len(self.classes_):
            raise ValueError(
                f"y has {y.shape[1]} columns of labels; the model was fitted to {len(self.classes_)}."
            )
        return y.astype(np.int64)


def is_multilabel(y: Any) -> bool:
    """Whether y says of every row and label whether they go together."""
    y = y if sp.issparse(y) else np.asarray(y)
    return y.ndim > 1 and type_of_target(y, input_name="y").startswith("multilabel")


def find_classes(y: Array) -> tuple[Array, Array]:
    """np.unique(y, return_inverse=True); whole numbers in a range no longer than y are counted instead of sorted."""
    if y.dtype.kind in "iu" and len(y):
        least, most = int(y.min()), int(y.max())
        if (
            most - least < len(y)
            and least > np.iinfo(np.int64).min
            and most <= np.iinfo(np.int64).max
        ):
            shifted = y.astype(np.int64) - least
            seen = np.bincount(shifted) > 0
            return (seen.nonzero()[0] + least).astype(y.dtype), (np.cumsum(seen) - 1)[shifted]
    return np.unique(y, return_inverse=True)


def encode(y: Array, classes: Array) -> Array:
    """The place of each label among the classes; ValueError for a label that is not among them."""
    places = np.searchsorted(classes, y) if classes.dtype.kind != "O" else _places(y, classes)
    places = np.minimum(places, len(classes) - 1)
    strange = classes[places] != y
    if np.any(strange):
        first = np.asarray(y)[strange].tolist()[0]
        raise ValueError(
            f"y holds the label {first!r}, which the model was not fitted to; it knows {list_classes(classes)}."
        )
    return places


def _places(y: Array, classes: Array) -> Array:
    at = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([at.get(label, 0) for label in np.asarray(y).tolist()])


def list_classes(classes: Array, most: int = 8) -> str:
    names = ", ".join(map(repr, classes[:most].tolist()))
    return names if len(classes) <= most else f"{names}, … ({len(classes)} in all)"


def class_weights(
    chosen: Any, classes: Array, places: Array, weights: Array | None = None
) -> Array:
    """One factor per class: the numbers a dict names (1 for others), or n/(k·count) for "balanced", rows counted by weight."""
    k = len(classes)
    if isinstance(chosen, str):
        counts = np.bincount(places, weights, minlength=k).astype(np.float64)
        return counts.sum() / (k * np.where(counts > 0, counts, np.inf))
    unknown = [label for label in chosen if label not in classes.tolist()]
    if unknown:
        raise ValueError(
            f"class_weight names the class {unknown[0]!r}, which is not in y; y holds {list_classes(classes)}."
        )
    return np.array([float(chosen.get(label, 1.0)) for label in classes.tolist()])
