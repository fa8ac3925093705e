"""The linear autoencoder: PCA learned as a network with two layers and a bottleneck.

    minimise  R(W, V) = ½ E‖x − VWx‖²        over the encoder W: m × d and the decoder V: d × m, x centred      CIL (1.2)

Only Σ = E[xxᵀ] enters, so training reads the data once. R determines the product VW but not the basis of the code:
(AW, VA⁻¹) has the same risk for every invertible A, or for every orthogonal one if the weights are tied (CIL 1.2.3). To find
the principal axes themselves (Ex. 1.5), `basis="pca"` lets every prefix of the code reconstruct on its own:

    minimise  R_pca(W, V) = (1/m) Σ_j ½ E‖x − V_:j W_:j x‖²         (V_:j: the first j columns, W_:j: the first j rows)

Each term is least exactly where V_:j W_:j projects onto the first j axes, and all can be least together, so at the minimum
v_j w_jᵀ = u_j u_jᵀ: the axes, up to sign if tied, up to scale otherwise (then ‖v_j‖ = 1 is chosen). Axes of nearly equal
variance are separated slowly. The gradients are in reconstruction.py.

On the notes: the identities that lead to (1.9) are right. Cor. 1.2.9 should read rank(AB) ≤ min{…}; that an optimal VW is an
orthogonal projection, and that V⁺ is *the* best encoder (1.3.6), need a Σ of full rank: on its null space VW is arbitrary. And
tied weights are orthonormal at the minimum (Ex. 1.2) only if Σ has rank ≥ m: further rows of W may be zero.

    >>> from sklearn.datasets import load_digits
    >>> model = LinearAutoencoder(n_components=4, tied=True, random_state=0).fit(load_digits().data)
    >>> "near_pca_optimum" in model.certificate_.held, model.certificate_.failed
    (True, ['axes_identified'])
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_array, check_is_fitted

from lemmata.audit.reduction.linear_autoencoder import AUTOENCODER_CLAIMS, DESCENT_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.engine import map_reduce
from lemmata.core.estimator import Model, RowTransformer
from lemmata.core.moments import Moments
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, choice, parameter
from lemmata.optim import Adam, GradientDescent, HeavyBall, Nesterov
from lemmata.reduction.axes import row_by_row
from lemmata.reduction.covariance import refuse_vanishing
from lemmata.reduction.reconstruction import (
    AutoencoderTraining,
    ClosedLinearAutoencoderAlgorithm,
    LinearAutoencoderAlgorithm,
    StochasticLinearAutoencoderAlgorithm,
    TrainingSample,
    largest_eigenvalue,
    value_and_gradient,
)

Array = np.ndarray

MAX_FEATURES = 20_000  # Σ has d² numbers: 3.2 GB at this width

FULL_BATCH = {
    "gd": GradientDescent(1.0),
    "heavy_ball": HeavyBall(1.0),
    "nesterov": Nesterov(1.0),
    "adam": Adam(),
}
# β → 1 would add up the noise of all batches
MINI_BATCH = {**FULL_BATCH, "nesterov": Nesterov(1.0, momentum=0.9)}


class LinearAutoencoder(ClassNamePrefixFeaturesOutMixin, RowTransformer, Model):
    """Encoder and decoder of a linear autoencoder, trained by gradients or in closed form.

    Minimises ½ E‖x − VWx‖² over W (m × d) and V (d × m) on centred data.

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

    n_components: int = parameter(2, COUNT).doc("""
        m, the width of the bottleneck; at most the number of features.""")
    _: KW_ONLY
    tied: bool = parameter(False, "boolean").doc("""
        Share the weights, V = Wᵀ: half the parameters, and orthonormal ones at the minimum (where Σ
        has rank ≥ m).""")
    basis: str = parameter("any", choice("any", "pca")).doc("""
        "any" minimises the loss above, which leaves the basis of the code free. "pca" minimises its
        mean over all prefixes of the code, whose minimum is the principal axes in order of
        variance.""")
    method: str = parameter("gd", choice("gd", "sgd", "closed")).doc("""
        Gradient steps on the covariance, epochs of mini-batches of rows (of an array or a memmap,
        not of a stream), or eigenvectors.""")
    optimizer: str = parameter("nesterov", choice(*FULL_BATCH)).doc("""
        How a gradient becomes a step.""")
    step_size: Any = parameter(None, POSITIVE, None).doc("""
        None: η = 1/L with L = λ₁(Σ)(‖V‖² + ‖W‖² + max(1, ‖V‖‖W‖)), twice that if tied, measured
        again at each step, and (gd) a step that would raise the loss is replaced by a shorter one
        without momentum. Adam: 0.05/√d. A number is taken as it is: too large a one diverges.""")
    batch_size: int = parameter(256, COUNT).doc("Rows in a mini-batch; only for sgd.")
    max_iter: int = common.max_iter(1000).doc("""
        The most gradient steps, or epochs. SGD nears the minimum like 1/epoch, so it seldom
        settles: give it as many as you can wait for.""")
    tol: float = common.tol(1e-9).doc("""
        Settled when the loss changes by less than this share of it in five steps in a row (closed:
        not used). It bounds no distance from the minimum; `near_pca_optimum` measures that.""")
    random_state: Any = common.random_state()
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = AUTOENCODER_CLAIMS
    stored: ClassVar = {"encoder_ decoder_ mean_ loss_": "audited"}
    min_samples = 2
    patience = 5  # momentum makes the loss pause for a step or two; five small changes in a row are no pause

    @staticmethod
    def optimal_encoder(decoder: Array) -> Array:
        """V⁺, an encoder that minimises the loss for this decoder V whatever the data (CIL 1.3.6).

        Minimisers solve VᵀVWΣ = VᵀΣ, which V⁺ does for every Σ, as VᵀVV⁺ = Vᵀ. It is the only one if Σ has full rank and V
        independent columns; otherwise it is the one of least norm that serves all Σ. (VᵀV)⁻¹Vᵀ needs independent columns.
        """
        return np.linalg.pinv(decoder)

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> AutoencoderTraining:
        m, d = self.n_components, data.shape[1]
        if m > d:
            raise ValueError(f"n_components={m} exceeds n_features={d}; pass n_components <= {d}.")
        if d > MAX_FEATURES:
            raise ValueError(
                f"the {d:,} × {d:,} covariance of this data does not fit; LinearAutoencoder takes up to "
                f"{MAX_FEATURES:,} features, PCA(svd_solver='randomized') any number."
            )
        parts = int(m), bool(self.tied), self.basis
        if self.method == "closed":
            return ClosedLinearAutoencoderAlgorithm(*parts)
        step_size = None if self.step_size is None else float(self.step_size)
        if self.method == "gd":
            return LinearAutoencoderAlgorithm(*parts, FULL_BATCH[self.optimizer], step_size)
        if not isinstance(data.source, np.ndarray):
            raise ValueError(
                "method='sgd' draws rows in random order, and this data comes in blocks; pass an array or a memmap, or "
                "method='gd' or 'closed', which read the blocks once."
            )
        optimizer, batch = MINI_BATCH[self.optimizer], int(self.batch_size)
        return StochasticLinearAutoencoderAlgorithm(*parts, optimizer, step_size, batch)

    def _problem(self, data: Blocks) -> TrainingSample:
        moments = map_reduce(Moments.of, data, Moments())
        refuse_vanishing(float(np.trace(moments.scatter)), data)
        S = moments.scatter / moments.n
        sample = TrainingSample(moments.mean, S, largest_eigenvalue(S), data.dtype.name)
        if self.method != "sgd":
            return sample
        n, total = data.shape[0], data.total_weight
        weights = None if data.weights is None else data.weights * (n / total)
        lengths = (
            ((rows - moments.mean) ** 2).sum(axis=1) * (1 if w is None else w) for rows, w in data
        )
        longest = max(float(part.max()) for part in lengths) * n / total
        return replace(sample, rows=np.asarray(data.source), weights=weights, longest=longest)

    def _attributes(self, solution, problem: TrainingSample) -> dict[str, Any]:
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
        # sgd descends in expectation only
        return DESCENT_CLAIMS if self.method == "gd" else AUTOENCODER_CLAIMS

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

    def transform(self, X) -> Array:
        """The code W(x − mean_) of every row."""
        check_is_fitted(self)
        data = self._validate_rows(X, reset=False)
        if is_dask(data.source):
            widths = (data.source.chunks[0], (len(self.encoder_),))
            return data.source.map_blocks(self._code, chunks=widths, dtype=data.dtype)
        return row_by_row(self._code, data)

    def _code(self, rows) -> Array:
        # sparse blocks of a stream stay sparse
        return rows @ self.encoder_.T - self.encoder_ @ self.mean_

    def inverse_transform(self, X) -> Array:
        """The reconstruction Vz + mean_ of every code z."""
        check_is_fitted(self)
        Z = check_array(X, dtype=[np.float64, np.float32], input_name="codes")
        if Z.ndim != 2 or Z.shape[1] != self.decoder_.shape[1]:
            raise ValueError(
                f"X has shape {Z.shape}; codes have shape (n_samples, {self.decoder_.shape[1]})."
            )
        return row_by_row(lambda rows: rows @ self.decoder_.T + self.mean_, Blocks.of(Z))

    def score(self, X, y=None, sample_weight=None) -> float:
        """Minus the mean squared error of the reconstruction, over rows and features; higher is better."""
        check_is_fitted(self)
        total = 0.0
        data = self._validate_rows(X, sample_weight, reset=False)
        for rows, weights in data:
            dense = rows.toarray() if sp.issparse(rows) else rows
            again = self.inverse_transform(row_by_row(self._code, Blocks.of(dense)))
            squares = ((dense - again) ** 2).sum(axis=1, dtype=np.float64)
            total += float(squares.sum() if weights is None else weights @ squares)
        return -total / (data.total_weight * data.shape[1])
