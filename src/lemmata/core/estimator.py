"""Model: the one path of every fit. validate → blocks → run → attributes → certificate.

A model says which algorithm its parameters stand for and which claims are made about it; everything else is here, so that
`max_iter`, `tol`, `random_state`, `verbose`, `checkpoint` and `time_limit` mean the same everywhere.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import replace
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.kernel.attributes import entries
from lemmata.core import engine, loop, parameters, validation
from lemmata.core.blocks import Blocks, check_blocks, is_dask, is_stream, unmask
from lemmata.core.certificate import Certificate, Fit, Statement
from lemmata.core.certification import checking
from lemmata.core.certification.showing import name_plainly, shorten
from lemmata.core.common import CONSTRAINTS
from lemmata.core.engine import USES, alone, as_sent, checks_in_fit, one_blas_thread, sent_along
from lemmata.core.files.layout import checked_attributes
from lemmata.core.runs.checkpoint import Checkpoint
from lemmata.core.runs.progress import Checking, Progress
from lemmata.core.runs.trace import Trace

# When the outermost fit of each model under way here began, by the model's id.
_began: ContextVar[Mapping[int, float]] = ContextVar("began", default=MappingProxyType({}))


@dataclass_transform(eq_default=False, field_specifiers=(parameters.fitted,))
class Model(parameters.FitAttributes, BaseEstimator):
    """Base of all estimators. A subclass defines `_algorithm`, `claims`, `stored` and, for people, `_title`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = CONSTRAINTS
    declared_parameters: ClassVar[Mapping[str, parameters.Parameter]] = {}
    parts: ClassVar[tuple[str, ...]] = ()  # parameters that have parameters: net__width

    claims: ClassVar[tuple[Statement, ...]] = ()

    # What files hold, a table as in audit/kernel/attributes.py: a name, or several, to a shape or a class. "audited" is the
    # shape that the claim attributes_sound has for it. The letter d is n_features_in_.
    stored: ClassVar[Mapping[str, str | type]] = {}

    COMMON_STORED: ClassVar[Mapping[str, str | type]] = {
        "n_features_in_": "int >=1",
        "feature_names_in_?": "d text",
        "n_iter_": "int >=0",
        "stopped_": str,
        "trace_": Trace,
        "certificate_": Certificate,
    }

    accepts_sparse: ClassVar[bool] = False
    accepts_nan: ClassVar[bool] = False  # as values that are not known
    finds_nonfinite: ClassVar[bool] = False  # its first pass refuses NaN: validation need not look
    min_samples: ClassVar[int] = 1
    patience: ClassVar[int] = 1  # small changes in a row that settle; more where momentum pauses

    # the settings that came with a model from another process: see `engine.sent_along`
    _sent: ClassVar[Mapping[str, str | int]] = MappingProxyType({})

    def __init_subclass__(cls, inherit_parameters: bool = True, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in USES:  # also those that a mixin brings
            method = inspect.getattr_static(cls, name, None)
            if inspect.isfunction(method) and not hasattr(method, "on_one_thread"):
                setattr(cls, name, alone(method, name))
        if "fit" not in vars(cls):  # Python names a function by its class where X or y is missing
            cls.fit = validation.name_after(cls, cls.fit)  # type: ignore[method-assign]
        if inspect.get_annotations(cls) or cls.declared_parameters or "__init__" in vars(cls):
            parameters.declare(cls, inherit_parameters)

    # --- what a model says of itself ---

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = self.accepts_sparse, self.accepts_nan
        return tags

    def _algorithm(self, data: Blocks) -> Any:
        """The algorithm that the parameters stand for on this data; raises ValueError where they do not fit it."""
        raise TypeError(f"{type(self).__name__} defines no _algorithm.")

    def _problem(self, data: Blocks) -> Any:
        """The data of the algorithm: the blocks themselves, or a statistic of them (PCA: the covariance)."""
        return data

    def _attributes(self, solution: loop.Solution, problem: Any) -> dict[str, Any]:
        """The public attributes of a finished run."""
        return solution.attributes

    def _claims(self) -> tuple[Statement, ...]:
        """The claims that apply to this fit."""
        return self.claims

    def _stop(self) -> loop.Stop:
        return self._within_time(
            loop.Settled(self.tol, self.patience) | loop.MaxSteps(self.max_iter)
        )

    def _title(self, data: Blocks | None) -> str:
        """The first line of the certificate."""
        name = type(self).__name__
        return f"{name}  {data.shape[0]:,} × {data.shape[1]:,}" if data else name

    # --- fitting ---

    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to X and check the claims about it.

        Parameters
        ----------
        X : array, sparse matrix, np.memmap, dask array, or a re-iterable of row blocks, of shape (n_samples, n_features)
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How many times each row counts.

        Returns
        -------
        self : with `certificate_`, `trace_`, `stopped_`, `n_iter_` and the model's own attributes
        """
        with self._all_or_nothing():
            self._validate_params()
            data = self._validate_pair(X, y, sample_weight)
            try:
                self._fit_blocks(data)
            except validation.OVER_NUMBERS as failure:
                validation.name_culprit(failure, data, self.accepts_nan, X)
                raise
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Around everything that fits: after an error the model is what it was; inside, one clock runs for `time_limit`.

        A fit inside of a fit of the same model (an escape from a saddle) runs by the clock of the outermost. BLAS has one
        thread: its last bits follow their number, and passes that are long are cut for our own threads.
        """
        before = dict(BaseEstimator.__getstate__(self))
        clocks = _began.set({id(self): time.perf_counter(), **_began.get()})
        try:
            with as_sent(self._sent), one_blas_thread():
                yield
        except BaseException as error:
            name_plainly(error)
            self._forget(*BaseEstimator.__getstate__(self).keys() - before.keys())
            for name, value in before.items():
                setattr(self, name, value)
            raise
        finally:
            _began.reset(clocks)

    def _seconds_left(self) -> float | None:
        """Seconds left of `time_limit` in the fit under way; None without a limit."""
        if self.time_limit is None:
            return None
        now = time.perf_counter()
        return max(self.time_limit - (now - _began.get().get(id(self), now)), 1e-9)

    def _within_time(self, rule: loop.Stop) -> loop.Stop:
        """A stopping rule, or the end of what is left of `time_limit`."""
        left = self._seconds_left()
        return rule if left is None else rule | loop.Seconds(left)

    def __getstate__(self):
        """The state for a copy, a pickle or a worker, with the settings made here."""
        state = {name: one for name, one in super().__getstate__().items() if name != "_sent"}
        settings = sent_along(received=self._sent)
        return {**state, "_sent": settings} if settings else state

    def __sklearn_clone__(self):
        """Clones inside of a worker (a Pipeline's) keep what was sent along."""
        copy = super().__sklearn_clone__()
        if self._sent:
            copy._sent = self._sent
        return copy

    def _fit_blocks(self, data: Blocks) -> None:
        self._fit_by(self._algorithm(data), data)

    def _fit_by(self, algorithm: Any, data: Blocks, problem: Any = None) -> None:
        """Run an algorithm on its problem, by default that of the data, and conclude."""
        problem = self._problem(data) if problem is None else problem
        rng = self._rng() if getattr(algorithm, "draws", True) else None
        solution = loop.run(
            algorithm, problem, stop=self._stop(), callbacks=self._callbacks(), rng=rng
        )
        if solution.stopped == loop.Stopped.INTERRUPTED and solution.step == 0:
            raise KeyboardInterrupt("interrupted before the first step was done: nothing to keep.")
        shown = loop.best_run(solution)  # its trace, length and end
        unsettled = not self._has_arrived(shown, problem) and self._wants_to_settle()
        attributes = self._attributes(solution, problem)
        self._conclude(data, attributes, shown.trace, shown.stopped, shown.step)
        self._warn_of_distance(self._describe_unsettled(shown) if unsettled else "")

    def _conclude(
        self, data: Any, attributes: dict[str, Any], trace: Trace, stopped: str | None, steps: int
    ) -> None:
        """The end of everything that fits: attributes, how the run went, and the certificate.

        data : what the claims are checked on; None where it is gone (batches), so that those about it wait for `certify(X)`
        """
        self.trace_, self.stopped_, self.n_iter_ = trace, stopped, max(steps, 1)
        for name, value in attributes.items():  # some count other iterations than steps
            if not engine.is_finite(value):
                validation.refuse_attribute(self, name, value)
            setattr(self, name, value)
        self.certificate_ = self._certificate(data, in_fit=True)

    def _forget(self, *names: str) -> None:
        """Delete attributes of an earlier fit, where there are any."""
        for name in names:
            with suppress(AttributeError):
                delattr(self, name)

    def _callbacks(self) -> list[Any]:
        callbacks: list[Any] = []
        if self.verbose:
            callbacks.append(Progress(type(self).__name__, total=self.max_iter))
        if self.checkpoint is not None:
            callbacks.append(Checkpoint(self.checkpoint, model=self))
        return callbacks

    def _rng(self) -> int | np.random.Generator:
        """A seed for `run`: an int stays what it is, so that a checkpoint knows it."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31, size=4))

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Roughly how many multiplications a fit took, from public attributes; what checking may cost is a multiple of it."""
        return checking.cost_of_steps(fit)

    def _wants_to_settle(self) -> bool:
        """Whether ending at max_iter is news; with tol = 0 it is what was asked for."""
        return self.tol > 0

    def _has_arrived(self, solution: loop.Solution, problem: Any) -> bool:
        """Whether a run ended by its own rules."""
        return solution.stopped != loop.Stopped.MAX_STEPS

    def _warn_of_distance(self, unsettled: str = "") -> None:
        """Warn once where a run did not settle, or where the main claim, that the result is optimal, fails: by how much."""
        if text := checking.describe_distance(self, unsettled):
            loop.warn_user(text, ConvergenceWarning)

    def _describe_unsettled(self, solution: loop.Solution) -> str:
        now, last = solution.trace.last(), solution.trace.last(back=1)
        change = abs(now - last) / max(abs(now), abs(last), np.finfo(float).tiny)
        return (
            f"{type(self).__name__} reached max_iter={self.max_iter} with relative change {change:.1e} > tol={self.tol:.0e}: "
            "raise max_iter, or read certificate_."
        )

    # --- input ---

    def _validate_params(self) -> None:
        if not parameters.are_accepted(self):
            try:
                super()._validate_params()
            except ValueError as error:  # it repeats the value, whatever its length
                raise type(error)(shorten(str(error))) from None
            parameters.refuse_truth_values(self)

    def _validate_rows(
        self, X, sample_weight=None, reset: bool = True, min_samples: int | None = None
    ) -> Blocks:
        """Everything from outside passes here, once. Masked entries are not known: NaN, which few models take."""
        X = unmask(X)
        validation.refuse_malformed(X)
        if min_samples is None:
            min_samples = self.min_samples if reset else 1
        looks = not (self.finds_nonfinite and reset)
        mapped = isinstance(X, np.memmap) and X.ndim == 2 and X.dtype in (np.float32, np.float64)
        if mapped or isinstance(X, Blocks) or is_dask(X) or is_stream(X):
            data = Blocks.of(X, allow_nan=self.accepts_nan)  # no copy; streams check their blocks
            self._check_width(data, reset)
            if mapped and looks:
                check_blocks(data, self.accepts_nan)
        else:
            finite = looks or hasattr(X, "tocsr")
            data = Blocks.of(validation.check_array_of(self, X, reset, min_samples, finite))
        if data.shape[0] < min_samples:
            raise ValueError(
                f"Found {data.shape[0]} sample(s) while a minimum of {min_samples} is required."
            )
        if sample_weight is not None:
            data = data.weighted(validation.check_weights(sample_weight, data.shape[0]))
        return data

    def _validate_pair(self, X, y, sample_weight=None, reset: bool = True) -> Blocks:
        return self._validate_rows(X, sample_weight, reset=reset)  # few models read y

    def _check_width(self, data: Any, reset: bool) -> None:
        """Note the number of features, or raise ValueError unless it is that of the fit."""
        if data.shape[1] < 1:
            raise ValueError(
                f"Found 0 feature(s) (shape={data.shape}) while a minimum of 1 is required."
            )
        if reset:
            self.n_features_in_ = data.shape[1]
            self._forget("feature_names_in_")
        elif data.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {data.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input."
            )

    # --- certificate ---

    def certify(
        self, X, y=None, sample_weight=None, *, seconds: float | None = None
    ) -> Certificate:
        """Check every claim about this fit on X, usually the training data.

        seconds : float, optional
            How long that may take; claims that need more stay *not checked*. By default five times the work of the fit, or
            about half a second if that is more, counted in work and not in time, so that every machine says the same.
        """
        check_is_fitted(self)
        return self._certificate(
            self._validate_rows(X, sample_weight, reset=False), y, seconds=seconds
        )

    def _certificate(
        self,
        data: Any,
        y=None,
        *,
        seconds: float | None = None,
        in_fit: bool = False,
        claims: tuple[Statement, ...] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Certificate:
        """Check the claims on data, within the budget of `certify`, of `fit`, or so many seconds.

        claims : those to check, if they are not `_claims()`
        attributes : what claims may look at besides the model's own (rows held out, questions)
        """
        steps = f"{self.stopped_}, {self.n_iter_} step{'s' if self.n_iter_ != 1 else ''}"
        claims = self._claims() if claims is None else claims
        if in_fit and not checks_in_fit():
            main = checking.main_claim(claims)
            waiting = checking.put_off(claims)
            return Certificate(self._safe_title(data), waiting, steps, trace=self.trace_, main=main)
        weights = None if data is None else data.weights
        if y is None and isinstance(data, Blocks):
            y = data.targets
        fit = Fit(self, data, y, weights, self.trace_, steps, attributes)
        usual = checking.budget(self.work, fit)
        work, lead = checking.shares_in_fit(usual) if in_fit else (usual, usual)
        showing = Checking(type(self).__name__, len(claims)) if self.verbose else nullcontext()
        with showing as bar:
            found = checking.check(
                claims, fit, self._safe_title(data), work=work, lead=lead, seconds=seconds, usual=usual, progress=bar
            )  # fmt: skip
        checking.warn_interrupted(found)
        return found

    def _safe_title(self, data: Any) -> str:
        """The title; of a model whose attributes were spoilt, its name: a claim says what is wrong with it."""
        try:
            return self._title(data)
        except Exception:
            return type(self).__name__

    def _html_repr(self) -> str:
        """scikit-learn's box for notebooks, with the verdict below it."""
        from lemmata.core.certification.report import as_line

        box = BaseEstimator._html_repr(self)
        return box + as_line(self.certificate_) if hasattr(self, "certificate_") else box

    # where the box links to: the page of the model's package
    _doc_link_module = "lemmata"
    _doc_link_template = "https://github.com/lemmata/lemmata/blob/main/docs/{page}.md"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"page": type(self).__module__.split(".")[1]}

    # --- files ---

    def stored_attributes(self) -> dict[str, Any]:
        """Return what `lemmata.save` writes besides the parameters."""
        check_is_fitted(self)
        found = {name: getattr(self, name) for name in self._shapes() if hasattr(self, name)}
        # the trace of a certificate is that of its model: a file needs it once
        return {**found, "certificate_": found["certificate_"].for_file()}

    @classmethod
    def _shapes(cls) -> dict[str, tuple[str | type, bool]]:
        """Describe each attribute of a file, and whether it may be absent."""
        audited = entries({name: spec for one in cls.claims for name, spec in one.shapes.items()})
        return {
            name: (audited[name][0] if spec == "audited" else spec, optional)
            for name, (spec, optional) in entries({**cls.COMMON_STORED, **cls.stored}).items()
        }

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from what a file holds. Raises ValueError where the parts do not fit together."""
        unknown = set(parameters) - set(cls._get_param_names())
        if unknown:
            raise ValueError(f"unknown parameter {sorted(map(str, unknown))[0]!r}.")
        model = cls(**parameters)
        model._validate_params()
        for name, value in checked_attributes(attributes, cls._shapes()).items():
            setattr(model, name, value)
        model.certificate_ = replace(model.certificate_, trace=model.trace_)
        if model.stopped_ in set(loop.Stopped):  # a word of another version stays the word it is
            model.stopped_ = loop.Stopped(model.stopped_)
        return model


class RowTransformer(TransformerMixin):
    """scikit-learn's, for models whose `transform` keeps float32."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
