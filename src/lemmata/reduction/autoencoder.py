"""The linear autoencoder: PCA learnt as a network with two layers and a bottleneck.

    minimise  R(W, V) = ½ E‖x − VWx‖²        over the encoder W: m × d and the decoder V: d × m, x centred      CIL (1.2)

Only Σ = E[xxᵀ] enters, so training reads the data once. The gradients are (1.10) and (1.11) with Σ for xxᵀ,

    ∇_W R = Vᵀ(VW − I)Σ,        ∇_V R = (VW − I)ΣWᵀ,        tied (V = Wᵀ, Ex. 1.4): their sum  (VVᵀ − I)ΣV + Σ(VVᵀ − I)V.

R determines VW but not the basis: (AW, VA⁻¹) has the same risk for every invertible A; for orthogonal A if tied (CIL 1.2.3).
To find the principal axes themselves (Ex. 1.5), `basis="pca"` lets every prefix of the code reconstruct on its own:

    R_pca(W, V) = (1/m) Σ_j ½ E‖x − V_:j W_:j x‖²         (V_:j: the first j columns, W_:j: the first j rows)

Each term is least exactly where V_:j W_:j projects onto the first j axes, and all of them can be least together, so that
v_j w_jᵀ = u_j u_jᵀ at the minimum: u_j up to sign if tied, up to scale otherwise. With a_k = 1 − (k−1)/m, the share of
the prefixes that contain unit k, and A_ik = min(a_i, a_k), collecting the terms gives

    R_pca = ½ tr Σ − tr(diag(a) WΣV) + ½⟨A∘VᵀV, WΣWᵀ⟩
    ∇_W = (A∘VᵀV)WΣ − diag(a)VᵀΣ,        ∇_V = V(A∘WΣWᵀ) − ΣWᵀdiag(a),

and a = (1, …, 1) gives back R: one formula serves both. Where two variances lie close, the axes are found slowly.

On the notes: the identities before (1.9) are right. Cor. 1.2.9 should read rank(AB) ≤ min. That an optimal VW is an
orthogonal projection, and Cor. 1.3.6 as an equality of sets, need a Σ of full rank: on its null space VW is arbitrary.

    >>> from sklearn.datasets import load_digits
    >>> model = LinearAutoencoder(n_components=4, tied=True, random_state=0).fit(load_digits().data)
    >>> "near_pca_optimum" in model.certificate_.holds, model.certificate_.failed
    (True, ['axes_identified'])
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.certificate import at_most, claim, rounding, unknown
from lemmata.core.engine import map_reduce
from lemmata.core.estimator import COMMON, Model
from lemmata.core.loop import MaxSteps, Seconds, Settled, Stop
from lemmata.core.moments import Moments
from lemmata.core.store import storable
from lemmata.optim import Adam, GradientDescent, HeavyBall, Nesterov, Optimizer, OptState, Params, gradient_norm
from lemmata.reduction.covariance import upright

Array = np.ndarray

MAX_FEATURES = 20_000  # Σ has d² numbers: 3.2 GB at this width
PATIENCE = 5  # momentum makes the loss pause for a step or two; five small changes in a row are no pause

FULL_BATCH = {"gd": GradientDescent(1.0), "heavy_ball": HeavyBall(1.0), "nesterov": Nesterov(1.0), "adam": Adam()}
MINI_BATCH = {**FULL_BATCH, "nesterov": Nesterov(1.0, momentum=0.9)}  # β → 1 would add up the noise of all batches


# --- the objective ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """What training sees of the data: its mean, Σ, the curvature it brings, and for mini-batches the rows."""

    mean: Array  # (d,)
    covariance: Array  # (d, d), scatter over total weight
    top: float  # λ₁ of Σ
    dtype: str  # of the data: what the attributes will have
    rows: Array | None = None  # (n, d), not centred
    weights: Array | None = None  # (n,), of mean 1


def unit_weights(m: int, basis: str) -> Array:
    """a_k, the share of the prefixes that contain unit k: all ones unless the PCA basis is wanted."""
    return 1.0 - np.arange(m) / m if basis == "pca" else np.ones(m)


def value_and_gradient(W: Array, V: Array, WS: Array, VS: Array, total: float, a: Array) -> tuple[float, Array, Array]:
    """R_pca (R if a = 1), ∇_W and ∇_V from WΣ, VᵀΣ (both m × d) and tr Σ."""
    A, code = np.minimum.outer(a, a), WS @ W.T
    gram = A * (V.T @ V)
    loss = 0.5 * total - float(a @ (WS * V.T).sum(axis=1)) + 0.5 * float((gram * code).sum())
    return max(loss, 0.0), gram @ WS - a[:, None] * VS, V @ (A * code) - WS.T * a


def smoothness(W: Array, V: Array, top: float, tied: bool) -> float:
    """L, a bound of the curvature of R and R_pca near (W, V).

    Along (X, Y) the second derivative is ‖(VX + YW)Σ^½‖² + 2⟨(VW − I)Σ, YX⟩, at most
    λ₁(‖V‖² + ‖W‖² + ‖I − VW‖)(‖X‖² + ‖Y‖²) in spectral norms. A projection other than 0 and I has ‖I − P‖ = ‖P‖ ≤ ‖V‖‖W‖,
    and training begins and ends at one. Tied, X = Yᵀ: twice as much. A prefix has smaller norms: the bound covers R_pca.
    """
    v, w = (math.sqrt(max(float(np.linalg.eigvalsh(G)[-1]), 0.0)) for G in (V.T @ V, W @ W.T))
    return top * (v**2 + w**2 + max(1.0, v * w)) * (2 if tied else 1)


def adam_step(d: int) -> float:
    """Adam moves every entry by about η; those of orthonormal columns have root mean square 1/√d: a twentieth of that."""
    return 0.05 / math.sqrt(d)


def largest_eigenvalue(S: Array, steps: int = 30) -> float:
    """λ₁ of a covariance by the power method (CIL 1.5.2) from its longest column.

    30 steps leave a few per cent at most, always from below; the guard in `step` answers for the rest.
    """
    x = S[:, np.argmax(np.diagonal(S))]
    for _ in range(steps):
        norm = np.linalg.norm(x)
        if norm == 0:
            return 0.0
        x = S @ (x / norm)
    return float(np.linalg.norm(x))


# --- the algorithms ---------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class LinearAutoencoderState:
    version = 1

    params: Params  # (W, V), or (V,) if tied
    gradient: Params  # at these params; of the whole data
    loss: float  # R or R_pca at these params
    memory: OptState  # of the optimiser
    seed: int  # mini-batches of epoch t are drawn from (seed, t)
    epoch: int
    done: bool = False  # no step along the gradient lowers the loss any more


class Training:
    """What the algorithms share: the parameters and the objective at them."""

    n_components: int
    tied: bool
    basis: str

    hint: ClassVar[str] = "lower step_size, or leave it None to have it measured"

    def split(self, params: Params) -> tuple[Array, Array]:
        """W and V."""
        return (params[0].T, params[0]) if self.tied else params  # type: ignore[return-value]

    def joined(self, W: Array, V: Array) -> Params:
        return (V,) if self.tied else (W, V)

    def at(self, params: Params, sample: Sample, memory: OptState, seed: int, epoch: int) -> LinearAutoencoderState:
        """The state at these parameters: loss and gradient on the whole data."""
        W, V = self.split(params)
        S, a = sample.covariance, unit_weights(self.n_components, self.basis)
        loss, gradient = self._collected(W, V, W @ S, V.T @ S, float(np.trace(S)), a)
        return LinearAutoencoderState(params, gradient, loss, memory, seed, epoch)

    def _collected(self, W, V, WS, VS, total, a) -> tuple[float, Params]:
        loss, to_W, to_V = value_and_gradient(W, V, WS, VS, total, a)
        return loss, (to_V + to_W.T,) if self.tied else (to_W, to_V)

    def start(self, sample: Sample, rng: np.random.Generator) -> Params:
        """V: an orthonormal basis of random combinations of Σ's columns (CIL Ex. 1.2: better than random numbers). W = V⁺.

        It lies in the range of Σ, so on the null space, which no gradient ever sees, W and V are 0 and stay 0.
        """
        S = sample.covariance
        V, _ = np.linalg.qr(S @ rng.standard_normal((len(S), self.n_components)))
        return self.joined(V.T.copy(), V)

    def objective(self, state):
        return state.loss

    def extras(self, state):
        return {"gradient": gradient_norm(state.gradient)}

    def finished(self, state):
        return state.done

    def attributes(self, state):
        W, V = self.split(state.params)
        if (
            self.basis == "pca"
        ):  # of v_j w_jᵀ choose the factors with ‖v_j‖ = 1; the product, hence the loss, is the same
            length = np.linalg.norm(V, axis=0)
            axes = upright(V / np.where(length > 0, length, 1))
            W, V = W * (axes * V).sum(axis=0)[:, None], axes
        return {"encoder_": W, "decoder_": V}


@dataclass(frozen=True)
class LinearAutoencoderAlgorithm(Training):
    """Gradient steps on Σ. With a measured step (step_size=None) the loss cannot rise.

    A step that would raise it is replaced by a gradient step without momentum, halved until the loss falls: for Nesterov
    that is the adaptive restart of O'Donoghue & Candès (2015), which needs no knowledge of the eigengap.
    """

    n_components: int
    tied: bool
    basis: str
    optimizer: Optimizer
    step_size: float | None = None

    def init(self, sample, rng):
        params = self.start(sample, rng)
        return self.at(params, sample, self.optimizer.init(params), seed=0, epoch=0)

    def step(self, state, sample):
        eta = self.step_size or self._measured(state.params, sample)
        if not 0 < eta < math.inf:  # Σ = 0
            return replace(state, done=True)
        params, memory = replace(self.optimizer, step_size=eta).step(state.memory, state.params, state.gradient)
        new = self.at(params, sample, memory, state.seed, state.epoch + 1)
        return new if new.loss < state.loss or self.step_size else self._guarded(state, sample, eta)

    def _measured(self, params, sample):
        if isinstance(self.optimizer, Adam):
            return adam_step(len(sample.mean))
        return self._inverse_smoothness(params, sample)

    def _inverse_smoothness(self, params, sample):
        L = smoothness(*self.split(params), sample.top, self.tied)
        return 1 / L if L > 0 else 0.0

    def _guarded(self, state, sample, eta):
        """The gradient step, halved until it descends; the state is done where rounding hides any descent."""
        slope = gradient_norm(state.gradient) ** 2
        eta = min(eta, self._inverse_smoothness(state.params, sample))
        noise = rounding(np.float64, terms=len(sample.mean)) * float(np.trace(sample.covariance))
        while eta * slope > noise:
            params, _ = GradientDescent(eta).step(OptState(0), state.params, state.gradient)
            new = self.at(params, sample, self.optimizer.init(params), state.seed, state.epoch + 1)
            if new.loss < state.loss:
                return new
            eta /= 2
        return replace(state, done=True)


@dataclass(frozen=True)
class StochasticLinearAutoencoderAlgorithm(Training):
    """Mini-batches of rows; a step is an epoch, in an order drawn from (seed, epoch). Step size ∝ 1/(1 + epoch/10)."""

    n_components: int
    tied: bool
    basis: str
    optimizer: Optimizer
    step_size: float | None = None
    batch_size: int = 256

    def init(self, sample, rng):
        params = tuple(part.astype(sample.rows.dtype) for part in self.start(sample, rng))
        return self.at(params, sample, self.optimizer.init(params), seed=int(rng.integers(2**63)), epoch=0)

    def step(self, state, sample):
        n = len(sample.rows)
        eta = (self.step_size or self._measured(state.params, sample)) / (1 + 0.1 * state.epoch)
        if not 0 < eta < math.inf:
            return replace(state, done=True)
        optimizer = replace(self.optimizer, step_size=eta)
        order = np.random.default_rng((state.seed, state.epoch)).permutation(n)
        params, memory = state.params, state.memory
        for start in range(0, n, self.batch_size):
            gradient = self._on_rows(params, sample, order[start : start + self.batch_size])
            params, memory = optimizer.step(memory, params, gradient)
        return self.at(params, sample, memory, state.seed, state.epoch + 1)

    def _on_rows(self, params, sample, batch) -> Params:
        """The gradient with the batch's own Σ, which is never formed: WΣ = (XWᵀ)ᵀX/b."""
        W, V = self.split(params)
        X = sample.rows[batch] - sample.mean.astype(sample.rows.dtype)
        weighted = (X if sample.weights is None else X * sample.weights[batch, None].astype(X.dtype)) / len(batch)
        a = unit_weights(self.n_components, self.basis).astype(X.dtype)
        return self._collected(W, V, (X @ W.T).T @ weighted, (X @ V).T @ weighted, 0.0, a)[1]

    def _measured(self, params, sample):
        """1/L with λ₁ of Σ replaced by that of a batch in expectation (Gower et al. 2019), which one long row can dominate."""
        if isinstance(self.optimizer, Adam):
            return adam_step(len(sample.mean))
        n, b = len(sample.rows), min(self.batch_size, len(sample.rows))
        share = (n - b) / (b * max(n - 1, 1))
        top = (1 - share) * sample.top + share * _longest(sample)
        L = smoothness(*self.split(params), top, self.tied) / (1 - getattr(self.optimizer, "momentum", 0.0))
        return 1 / L if L > 0 else 0.0


def _longest(sample: Sample) -> float:
    """max w‖x − μ‖² over the rows, without a centred copy of them."""
    X, mean = sample.rows, sample.mean
    squares = np.einsum("ij,ij->i", X, X, dtype=np.float64) - 2 * (X @ mean) + mean @ mean
    return float((squares if sample.weights is None else squares * sample.weights).max())


@dataclass(frozen=True)
class ClosedLinearAutoencoderAlgorithm(Training):
    """V = the m leading eigenvectors of Σ, W = Vᵀ (CIL Thm 1.4.4): a minimum of every objective here, tied or not."""

    n_components: int
    tied: bool
    basis: str

    def init(self, sample, rng):
        V = np.zeros((len(sample.mean), self.n_components))
        return self.at(self.joined(V.T, V), sample, OptState(0), seed=0, epoch=0)

    def step(self, state, sample):
        V = np.linalg.eigh(sample.covariance)[1][:, : -self.n_components - 1 : -1]
        V = upright(V)
        return replace(self.at(self.joined(V.T, V), sample, state.memory, 0, 1), done=True)


# --- claims -----------------------------------------------------------------------------------------------------------


def _second_moments(fit) -> tuple[Array, Array, float]:
    """Mean, covariance (over the total weight) and √E‖x‖² of the data, by two plain passes; kept for the next claim."""
    if "second moments" not in fit.memory:
        n, sums = 0.0, np.zeros(fit.data.shape[1])
        for rows, w in _weighted_rows(fit.data):
            n, sums = n + w.sum(), sums + w @ rows
        mean, scatter = sums / n, np.zeros((len(sums), len(sums)))
        for rows, w in _weighted_rows(fit.data):
            scatter += (rows - mean).T @ ((rows - mean) * w[:, None])
        size = math.sqrt(np.trace(scatter) / n + mean @ mean)
        fit.memory["second moments"] = mean, scatter / n, size
    return fit.memory["second moments"]


def _weighted_rows(data):
    for rows, weights in data:
        dense = rows.toarray() if sp.issparse(rows) else rows
        yield dense.astype(np.float64), np.ones(rows.shape[0]) if weights is None else weights


def _factors(fit) -> tuple[Array, Array]:
    return fit.encoder_.astype(np.float64), fit.decoder_.astype(np.float64)


@claim("P = VW is a projection (P² = P) of rank ≤ m, to 0.1 %", source="CIL 1.3.5")
def reconstruction_is_projection(fit):
    """P differs from the projection VV⁺ onto its own image by as much, which costs a millionth of the variance."""
    W, V = _factors(fit)
    P = V @ W
    size = max(np.linalg.norm(P), np.finfo(float).tiny)
    advice = "not at a minimum yet: lower tol, raise max_iter, or scale the columns"
    return at_most(np.linalg.norm(P @ P - P) / size, 1e-3, advice, unit="|P² − P| / |P|")


@claim("the loss is within 1 % of the PCA optimum, half the tail of the spectrum", source="CIL 1.4.4", costly=True)
def near_pca_optimum(fit):
    W, V = _factors(fit)
    _, S, _ = _second_moments(fit)
    E = np.eye(len(S)) - V @ W
    variances = np.linalg.eigvalsh(S)[::-1]
    best = max(0.5 * variances[len(W) :].sum(), 0.0)
    slack = rounding(fit.encoder_.dtype, terms=len(S)) * 0.5 * variances.sum()
    advice = "raise max_iter, or pass method='closed'"
    return at_most(0.5 * np.trace(E @ S @ E.T), 1.01 * best + slack, advice, unit="loss")


@claim("a first-order point: the gradient is below 1e-4 of its scale", source="CIL (1.10), (1.11)", costly=True)
def first_order_point(fit):
    W, V = _factors(fit)
    _, S, _ = _second_moments(fit)
    D = (V @ W - np.eye(len(S))) @ S
    pull = np.linalg.norm(D @ W.T) * np.linalg.norm(V) + np.linalg.norm(V.T @ D) * np.linalg.norm(W)
    advice = "lower tol and raise max_iter; columns of very different scale slow the descent: scale them"
    return at_most(pull / max(np.trace(S), np.finfo(float).tiny), 1e-4, advice, unit="|grad||param| / tr Σ")


@claim("the coordinates are the principal axes, in order, up to sign", source="CIL 1.2.3, Ex. 1.5", costly=True)
def axes_identified(fit):
    W, V = _factors(fit)
    _, S, _ = _second_moments(fit)
    variances, axes = np.linalg.eigh(S)
    variances, U = variances[::-1], axes[:, ::-1][:, : len(W)]
    gaps = variances[: len(W)] - np.append(variances[1:], 0.0)[: len(W)]
    if gaps.min() <= rounding(fit.encoder_.dtype, terms=len(S)) * variances[0]:
        return unknown(
            f"variances {gaps.argmin() + 1} and {gaps.argmin() + 2} coincide: the data determine no such axes"
        )
    signs = np.where((W.T * U).sum(axis=0) < 0, -1.0, 1.0)
    off = max(np.linalg.norm(F * signs - U, axis=0).max() for F in (W.T, V))
    group = "O(m): any rotation of the code" if np.array_equal(W, V.T) else "GL(m): any invertible map of the code"
    if getattr(fit.model, "basis", "any") == "any":
        return at_most(off, 1e-2, "interpret the subspace, not its coordinates; or pass basis='pca'", "distance",
                       note=f"the loss leaves {group} free")  # fmt: skip
    return at_most(off, 1e-2, "close variances are separated slowly: lower tol and raise max_iter", "distance")


@claim("no offset would lower the loss: centring made the affine part redundant", source="CIL 1.2.1", costly=True)
def no_affine_part(fit):
    """The best offset is E[(I − VW)(x − mean_)]; it is 0 if mean_ is the mean, up to the rounding of both."""
    W, V = _factors(fit)
    mean, _, size = _second_moments(fit)
    shift = mean - fit.mean_.astype(np.float64)
    error = rounding(fit.mean_.dtype) + rounding(np.float64, terms=fit.data.shape[0])
    bound = error * size * (1 + np.linalg.norm(V) * np.linalg.norm(W))
    return at_most(
        np.linalg.norm(shift - V @ (W @ shift)), bound, "mean_ is not the mean of this data", unit="|offset|"
    )


@claim("the loss never rose", source="CIL 1.5.3", about="run")
def never_rose(fit):
    advice = "step_size exceeds 2/L: lower it, or leave it None to have it measured"
    return at_most(fit.trace.largest_rise, 0.0, advice, unit="largest rise")


# --- the estimator ----------------------------------------------------------------------------------------------------


class LinearAutoencoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Model):
    """Encoder and decoder of a linear autoencoder, trained by gradients or in closed form.

    Minimises ½ E‖x − VWx‖² over W (m × d) and V (d × m) on centred data.

    Parameters
    ----------
    n_components : int, default=2
        m, the width of the bottleneck; at most the number of features.
    tied : bool, default=False
        Share the weights, V = Wᵀ: half the parameters, and orthonormal ones at the minimum (where Σ has rank ≥ m).
    basis : {"any", "pca"}, default="any"
        "any" minimises the loss above, which leaves the basis of the code free. "pca" minimises its mean over all prefixes
        of the code, whose minimum is the principal axes in order of variance.
    method : {"gd", "sgd", "closed"}, default="gd"
        Gradient steps on the covariance, epochs of mini-batches of rows (which must be in memory), or eigenvectors.
    optimizer : {"nesterov", "gd", "heavy_ball", "adam"}, default="nesterov"
        How a gradient becomes a step.
    step_size : float or None, default=None
        None: η = 1/L with L = λ₁(Σ)(‖V‖² + ‖W‖² + max(1, ‖V‖‖W‖)), twice that if tied, measured anew at each step, and
        (gd) a step that would raise the loss is replaced by a shorter one without momentum. Adam: 0.05/√d. A number is
        taken as it is: too large a one diverges.
    batch_size : int, default=256
        Rows in a mini-batch; only for sgd.
    max_iter : int, default=2000
        The most gradient steps, or epochs.
    tol : float, default=1e-9
        Settled when the loss changes by less than this share of it in five steps in a row.
    random_state, verbose, checkpoint, time_limit
        As everywhere: the seed of start and batches, a progress bar, a file to resume from, seconds.

    Attributes
    ----------
    encoder_ : array (m, d)
        W.
    decoder_ : array (d, m)
        V.
    components_ : array (m, d)
        The encoder under scikit-learn's name.
    mean_ : array (d,)
    loss_ : float
        ½ E‖x − VWx‖² on the training data.
    n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **COMMON,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "tied": ["boolean"],
        "basis": [StrOptions({"any", "pca"})],
        "method": [StrOptions({"gd", "sgd", "closed"})],
        "optimizer": [StrOptions(set(FULL_BATCH))],
        "step_size": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
    }

    claims = (
        reconstruction_is_projection,
        near_pca_optimum,
        first_order_point,
        axes_identified,
        no_affine_part,
    )
    stored: ClassVar = {"encoder_": "m d", "decoder_": "d m", "mean_": "d", "loss_": ""}
    min_samples = 2

    def __init__(
        self,
        n_components=2,
        *,
        tied=False,
        basis="any",
        method="gd",
        optimizer="nesterov",
        step_size=None,
        batch_size=256,
        max_iter=2000,
        tol=1e-9,
        random_state=None,
        verbose=0,
        checkpoint=None,
        time_limit=None,
    ):
        self.n_components = n_components
        self.tied = tied
        self.basis = basis
        self.method = method
        self.optimizer = optimizer
        self.step_size = step_size
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.time_limit = time_limit

    @staticmethod
    def optimal_encoder(decoder: Array) -> Array:
        """V⁺, an encoder that minimises the loss for this decoder V whatever the data (CIL 1.3.6).

        Minimisers solve VᵀVWΣ = VᵀΣ, which V⁺ does for every Σ, as VᵀVV⁺ = Vᵀ. It is the only one if Σ has full rank and V
        independent columns; otherwise it is the one of least norm that serves all Σ. (VᵀV)⁻¹Vᵀ needs independent columns.
        """
        return np.linalg.pinv(decoder)

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> Any:
        m, d = self.n_components, data.shape[1]
        if m > d:
            raise ValueError(f"n_components={m} exceeds n_features={d}; pass n_components <= {d}.")
        if d > MAX_FEATURES:
            raise ValueError(
                f"the {d:,} × {d:,} covariance of this data does not fit; LinearAutoencoder takes up to "
                f"{MAX_FEATURES:,} features, PCA(solver='randomized') any number."
            )
        parts = {"n_components": int(m), "tied": bool(self.tied), "basis": self.basis}
        if self.method == "closed":
            return ClosedLinearAutoencoderAlgorithm(**parts)
        step_size = None if self.step_size is None else float(self.step_size)
        if self.method == "gd":
            return LinearAutoencoderAlgorithm(**parts, optimizer=FULL_BATCH[self.optimizer], step_size=step_size)
        if not isinstance(data.source, np.ndarray) or not data.in_memory:
            raise ValueError(
                "method='sgd' draws rows in random order and needs them in memory as one array; this data comes in "
                "blocks: pass method='gd' or 'closed', which read it once, or an array."
            )
        return StochasticLinearAutoencoderAlgorithm(
            **parts, optimizer=MINI_BATCH[self.optimizer], step_size=step_size, batch_size=int(self.batch_size)
        )

    def _problem(self, data: Blocks) -> Sample:
        moments = map_reduce(Moments.of, data, Moments())
        if not moments.n > 0:
            raise ValueError("all sample weights are zero; at least one row has to count.")
        S = moments.scatter / moments.n
        sample = Sample(moments.mean, S, largest_eigenvalue(S), data.dtype.name)
        if self.method != "sgd":
            return sample
        weights = None if data.weights is None else data.weights * (data.shape[0] / data.total_weight)
        return replace(sample, rows=data.source, weights=weights)

    def _attributes(self, solution, problem: Sample) -> dict[str, Any]:
        W, V = solution.attributes["encoder_"], solution.attributes["decoder_"]
        S = problem.covariance
        loss, _, _ = value_and_gradient(W, V, W @ S, V.T @ S, float(np.trace(S)), np.ones(len(W)))
        dtype = problem.dtype
        return {
            "encoder_": W.astype(dtype),
            "decoder_": V.astype(dtype),
            "mean_": problem.mean.astype(dtype),
            "loss_": loss,
        }

    def _claims(self):
        return (*self.claims, never_rose) if self.method == "gd" else self.claims  # sgd descends in expectation only

    def _stop(self) -> Stop:
        rule: Stop = Settled(self.tol, patience=PATIENCE) | MaxSteps(self.max_iter)
        return rule if self.time_limit is None else rule | Seconds(self.time_limit)

    def _title(self, data: Blocks | None) -> str:
        kind = f"{'tied' if self.tied else 'untied'}, basis {self.basis}, {self.method}"
        return f"{super()._title(data)} → {self.encoder_.shape[0]}, {kind}"

    # --- using ---

    @property
    def components_(self) -> Array:
        return self.encoder_

    @property
    def _n_features_out(self) -> int:
        return self.encoder_.shape[0]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def transform(self, X) -> Array:
        """The code W(x − mean_) of every row."""
        check_is_fitted(self)
        data = self._validated(X, reset=False)
        if is_dask(data.source):
            widths = (data.source.chunks[0], (len(self.encoder_),))
            return data.source.map_blocks(self._code, chunks=widths, dtype=data.dtype)
        return np.concatenate([self._code(rows) for rows, _ in data])

    def _code(self, rows) -> Array:
        return rows @ self.encoder_.T - self.encoder_ @ self.mean_  # sparse blocks of a stream stay sparse

    def inverse_transform(self, X) -> Array:
        """The reconstruction Vz + mean_ of every code z."""
        check_is_fitted(self)
        Z = np.asarray(X)
        if Z.ndim != 2 or Z.shape[1] != self.decoder_.shape[1]:
            raise ValueError(f"X has shape {Z.shape}; codes have shape (n_samples, {self.decoder_.shape[1]}).")
        return Z @ self.decoder_.T + self.mean_

    def score(self, X, y=None, sample_weight=None) -> float:
        """Minus the mean squared error of the reconstruction, over rows and features; higher is better."""
        check_is_fitted(self)
        total = 0.0
        data = self._validated(X, sample_weight, reset=False)
        for rows, weights in data:
            dense = rows.toarray() if sp.issparse(rows) else rows
            squares = ((dense - self.inverse_transform(self._code(dense))) ** 2).sum(axis=1, dtype=np.float64)
            total += float(squares.sum() if weights is None else weights @ squares)
        return -total / (data.total_weight * data.shape[1])
