"""Training of a linear autoencoder: the risk, its gradient and curvature, and three ways down.

    R(W, V) = ½ E‖x − VWx‖²,  or its mean over all prefixes of the code if the basis of PCA is wanted:

    R_pca(W, V) = (1/m) Σ_j ½ E‖x − V_:j W_:j x‖² = ½ tr Σ − tr(diag(a) WΣV) + ½⟨A∘VᵀV, WΣWᵀ⟩
    ∇_W = (A∘VᵀV)WΣ − diag(a)VᵀΣ,        ∇_V = V(A∘WΣWᵀ) − ΣWᵀdiag(a)

where a_k = 1 − (k−1)/m is the share of the prefixes that contain unit k, and A_ik = min(a_i, a_k) that of those that contain
both i and k. With a = (1, …, 1) all of it is about R, and the gradients are (1.10) and (1.11) of the notes with Σ for xxᵀ.
Tied weights, W = Vᵀ, have the gradient ∇_V + (∇_W)ᵀ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.certificate import rounding
from lemmata.core.files.layout import check_alike
from lemmata.core.store import digest, storable
from lemmata.optim.adaptive import Adam
from lemmata.optim.steps import GradientDescent, OptState, Params, gradient_norm
from lemmata.reduction.covariance import upright

Array = np.ndarray


@dataclass(frozen=True)
class TrainingSample:
    """The data as training sees it: its mean, Σ, the curvature it brings, and for mini-batches the rows."""

    mean: Array  # (d,)
    covariance: Array  # (d, d), scatter over total weight
    top: float  # λ₁ of Σ
    dtype: str  # of the data: what the attributes will have
    rows: Array | None = None  # (n, d), not centred
    weights: Array | None = None  # (n,), of mean 1
    longest: float = 0.0  # max w‖x − μ‖² over the rows

    def fingerprint(self) -> str:
        """A mark of what a run depends on, for checkpoints: the rows, or the moments where training sees no more."""
        if self.rows is not None:
            return Blocks.of(self.rows, self.weights).fingerprint()
        return digest((self.mean, self.covariance))


def unit_weights(m: int, basis: str) -> Array:
    """a_k, the share of the prefixes that contain unit k: all ones unless the PCA basis is wanted."""
    return 1.0 - np.arange(m) / m if basis == "pca" else np.ones(m)


def value_and_gradient(
    W: Array, V: Array, WS: Array, VS: Array, total: float, a: Array
) -> tuple[float, Array, Array]:
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
    """λ₁ of a covariance by the power method (CIL 1.5.2) from a random start.

    From below, with an expected error of at most 0.87·ln d/(steps − 1) whatever the spectrum (Kuczyński & Woźniakowski
    1992), mostly far less; where a step is too long for it, the guard in `step` shortens it.
    """
    size = float(np.abs(S).max(initial=0.0))
    if size == 0:
        return 0.0
    x = (S / size) @ np.random.default_rng(0).standard_normal(len(S))
    for _ in range(steps):
        norm = np.linalg.norm(x)
        if norm == 0:
            return 0.0
        x = (S @ (x / norm)) / size
    return size * float(np.linalg.norm(x))


# --- the algorithms ---------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class LinearAutoencoderState:
    """The weights with their loss and gradient, what the optimiser remembers, and the position in the data."""

    version = 1
    layout: ClassVar = {"seed epoch": "int >=0"}

    params: Params  # (W, V), or (V,) if tied
    gradient: Params  # at these params; of the whole data
    loss: float  # R or R_pca at these params
    memory: OptState  # of the optimiser
    seed: int  # mini-batches of epoch t are drawn from (seed, t)
    epoch: int
    done: bool = False  # no step along the gradient lowers the loss any more


class AutoencoderTraining:
    """Base of the algorithms: the parameters and the objective at them."""

    n_components: int
    tied: bool
    basis: str

    hint: ClassVar[str] = "lower step_size, or leave it None to have it measured"

    def split(self, params: Params) -> tuple[Array, Array]:
        """W and V."""
        return (params[0].T, params[0]) if self.tied else params  # type: ignore[return-value]

    def join(self, W: Array, V: Array) -> Params:
        return (V,) if self.tied else (W, V)

    def check_state(self, state: LinearAutoencoderState, sample: TrainingSample) -> None:
        """ValueError where a state from a file is none of this network."""
        V = np.broadcast_to(0.0, (len(sample.mean), self.n_components))
        slots = state.memory.slots
        check_alike(self.join(V.T, V), state.params, state.gradient, *slots)
        if len(slots) != getattr(getattr(self, "optimizer", None), "slots", 0):
            raise ValueError(f"the optimizer remembers {len(slots)} things.")

    def at(
        self, params: Params, sample: TrainingSample, memory: OptState, seed: int, epoch: int
    ) -> LinearAutoencoderState:
        """The state at these parameters: loss and gradient on the whole data."""
        W, V = self.split(params)
        S, a = sample.covariance, unit_weights(self.n_components, self.basis)
        loss, gradient = self._loss_and_gradient(W, V, W @ S, V.T @ S, float(np.trace(S)), a)
        return LinearAutoencoderState(params, gradient, loss, memory, seed, epoch)

    def _loss_and_gradient(self, W, V, WS, VS, total, a) -> tuple[float, Params]:
        loss, to_W, to_V = value_and_gradient(W, V, WS, VS, total, a)
        return loss, (to_V + to_W.T,) if self.tied else (to_W, to_V)

    def start(self, sample: TrainingSample, rng: np.random.Generator) -> Params:
        """V: an orthonormal basis of random combinations of Σ's columns (CIL Ex. 1.2: better than random numbers). W = V⁺.

        It lies in the range of Σ, so on the null space, which no gradient ever sees, W and V are 0 and stay 0.
        """
        S = sample.covariance
        V, _ = np.linalg.qr(S @ rng.standard_normal((len(S), self.n_components)))
        return self.join(V.T.copy(), V)

    def objective(self, state):
        return state.loss

    def extras(self, state):
        return {"gradient": gradient_norm(state.gradient)}

    def finished(self, state):
        return state.done

    def attributes(self, state):
        W, V = self.split(state.params)
        if self.basis == "pca":
            # v_j w_jᵀ leaves a scale free: show the factors with ‖v_j‖ = 1, whose product, hence whose loss, is the same
            length = np.linalg.norm(V, axis=0)
            axes = upright(V / np.where(length > 0, length, 1))
            W, V = W * (axes * V).sum(axis=0)[:, None], axes
        return {"encoder_": W, "decoder_": V}


@dataclass(frozen=True)
class LinearAutoencoderAlgorithm(AutoencoderTraining):
    """Gradient steps on Σ. With a measured step (step_size=None) the loss cannot rise.

    A step that would raise it is replaced by a gradient step without momentum, halved until the loss falls: for Nesterov
    that is the adaptive restart of O'Donoghue & Candès (2015), which needs no knowledge of the eigengap.
    """

    n_components: int
    tied: bool
    basis: str
    optimizer: Any  # an Optimizer of lemmata.optim; its step size is replaced
    step_size: float | None = None

    def init(self, sample, rng):
        params = self.start(sample, rng)
        return self.at(params, sample, self.optimizer.init(params), seed=0, epoch=0)

    def step(self, state, sample):
        eta = self.step_size or self._measure_step(state.params, sample)
        if not 0 < eta < math.inf:  # Σ = 0
            return replace(state, done=True)
        params, memory = replace(self.optimizer, step_size=eta).step(
            state.memory, state.params, state.gradient
        )
        new = self.at(params, sample, memory, state.seed, state.epoch + 1)
        if new.loss < state.loss or self.step_size:
            return new
        return self._shorten_step(state, sample, eta)

    def _measure_step(self, params, sample):
        if isinstance(self.optimizer, Adam):
            return adam_step(len(sample.mean))
        return self._inverse_smoothness(params, sample)

    def _inverse_smoothness(self, params, sample):
        L = smoothness(*self.split(params), sample.top, self.tied)
        return 1 / L if L > 0 else 0.0

    def _shorten_step(self, state, sample, eta):
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
class StochasticLinearAutoencoderAlgorithm(AutoencoderTraining):
    """Mini-batches of rows; a step is an epoch, in an order drawn from (seed, epoch).

    The step size falls like (1 + epoch/10)^−¾: its sum diverges, so no start is too far, that of its squares converges, so the
    noise of the batches is averaged away (Robbins & Monro 1951).
    """

    n_components: int
    tied: bool
    basis: str
    optimizer: Any  # an Optimizer of lemmata.optim; its step size is replaced
    step_size: float | None = None
    batch_size: int = 256

    def init(self, sample, rng):
        params = tuple(part.astype(sample.rows.dtype) for part in self.start(sample, rng))
        return self.at(
            params, sample, self.optimizer.init(params), seed=int(rng.integers(2**63)), epoch=0
        )

    def step(self, state, sample):
        n = len(sample.rows)
        eta = self.step_size or self._measure_step(state.params, sample)
        eta = eta / (1 + 0.1 * state.epoch) ** 0.75
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
        w = 1 if sample.weights is None else sample.weights[batch, None].astype(X.dtype)
        weighted = X * w / len(batch)
        a = unit_weights(self.n_components, self.basis).astype(X.dtype)
        return self._loss_and_gradient(W, V, (X @ W.T).T @ weighted, (X @ V).T @ weighted, 0.0, a)[
            1
        ]

    def _measure_step(self, params, sample):
        """1/L with λ₁ of Σ replaced by that of a batch in expectation (Gower et al. 2019), which one long row can dominate."""
        if isinstance(self.optimizer, Adam):
            return adam_step(len(sample.mean))
        n, b = len(sample.rows), min(self.batch_size, len(sample.rows))
        share = (n - b) / (b * max(n - 1, 1))
        top = (1 - share) * sample.top + share * sample.longest
        # it lengthens a step to η/(1 − β) in the long run
        momentum = getattr(self.optimizer, "momentum", None) or 0.0
        L = smoothness(*self.split(params), top, self.tied) / (1 - momentum)
        return 1 / L if L > 0 else 0.0


@dataclass(frozen=True)
class ClosedLinearAutoencoderAlgorithm(AutoencoderTraining):
    """V = the m leading eigenvectors of Σ, W = Vᵀ (CIL Thm 1.4.4): a minimum of every objective here, tied or not."""

    n_components: int
    tied: bool
    basis: str

    def init(self, sample, rng):
        V = np.zeros((len(sample.mean), self.n_components))
        return self.at(self.join(V.T, V), sample, OptState(0), seed=0, epoch=0)

    def step(self, state, sample):
        V = np.linalg.eigh(sample.covariance)[1][:, : -self.n_components - 1 : -1]
        V = upright(V)
        return replace(self.at(self.join(V.T, V), sample, state.memory, 0, 1), done=True)
