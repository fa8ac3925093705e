"""Certifying fits of other libraries: by which claims and which adapter, and how their data is checked.

Everything is named, as "module:name" below `lemmata`, and imported when it is needed; none of it is a solver. Whose fits they
are stands in the registry. A test compares what is said here with our models.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Counterpart(NamedTuple):
    """A stand-in for our model where only its claims are wanted."""

    claims: str  # a tuple in audit/; an adapter may narrow it to what a fit can promise
    adapter: str = ""  # a function in audit/: the fit's attributes in our words
    cost: str = ""  # a function in checking.py, or "module:function"; "": steps times numbers
    base: str = "core.estimator:Model"  # a base of our model that checks data
    flags: Mapping[str, bool] = {}  # what our model says of the data it takes
    X_test: bool = False  # whether claims can use rows that were not trained on
    reads: str = ""  # a function (model, X) that opens data in the library's own form


SPARSE = {"accepts_sparse": True}
NAN = {"accepts_nan": True}
OUTPUTS = {**SPARSE, "multi_output": True}
REGRESSOR, CLASSIFIER = "core.supervised:Regressor", "core.supervised:Classifier"
SEVERAL_OUTPUTS = "core.supervised:SeveralOutputsClassifier"
MULTILABEL = "core.supervised:MultilabelClassifier"


def _linear(claims: str, adapter: str, cost: str, base: str, flags=SPARSE) -> Counterpart:
    claims, adapter = f"audit.predict.linear.{claims}", f"audit.predict.linear.objectives:{adapter}"
    return Counterpart(claims, adapter, cost, base, flags)


def _kernel(claims: str, adapter: str, cost: str, base: str = "core.estimator:Model", flags=SPARSE):
    claims, adapter = f"audit.predict.kernels.{claims}", f"audit.predict.kernels.foreign:{adapter}"
    return Counterpart(claims, adapter, cost, base, flags)


def _neighbours(claims: str, base: str = "core.estimator:Model", flags=SPARSE) -> Counterpart:
    claims = f"audit.predict.neighbours.knn:{claims}"
    return Counterpart(claims, "", "cost_of_neighbours", base, flags)


def _perceptron(base: str, flags=SPARSE) -> Counterpart:
    adapter = "audit.nets.mlp:perceptron_of"
    return Counterpart("audit.nets.mlp:MLP_CLAIMS", adapter, "cost_of_perceptron", base, flags)


COUNTERPARTS: dict[str, Counterpart] = {
    "PCA": Counterpart(
        "audit.reduction.pca:SUBSPACE_CLAIMS",
        "audit.reduction.foreign:components_of",
        "reduction_costs:cost_of_pca",
        flags=SPARSE,
    ),
    "IncrementalPCA": Counterpart(
        "audit.reduction.pca:SUBSPACE_CLAIMS",
        cost="reduction_costs:cost_of_incremental_pca",
        flags=SPARSE,
    ),
    "TruncatedSVD": Counterpart(
        "audit.reduction.pca:SVD_CLAIMS", cost="reduction_costs:cost_of_truncated_svd", flags=SPARSE
    ),
    "KernelPCA": Counterpart(
        "audit.reduction.kernel_pca:KERNEL_CLAIMS",
        cost="reduction_costs:cost_of_kernel_pca",
        flags=SPARSE,
    ),
    "SparseCoder": Counterpart(
        "audit.reduction.sparse_codes:CODER_CLAIMS",
        "audit.reduction.foreign:coder_of",
        "reduction_costs:cost_of_codes",
        flags=NAN,
    ),
    "DictionaryLearning": Counterpart(
        "audit.reduction.dictionaries:PENALISED_CLAIMS",
        "audit.reduction.foreign:dictionary_of",
        "reduction_costs:cost_of_dictionary",
        flags=NAN,
    ),
    "ALS": Counterpart(
        "audit.completion.factors:EXPLICIT_CLAIMS",
        "audit.completion.foreign:factors_of",
        "cost_of_als",
        "completion.data.known_entries:ModelOfEntries",
        SPARSE,
    ),
    "KMeans": Counterpart(
        "audit.clustering.kmeans:KMEANS_CLAIMS", cost="cost_of_kmeans", flags=SPARSE
    ),
    "MiniBatchKMeans": Counterpart(
        "audit.clustering.kmeans:MINI_BATCH_CLAIMS", cost="cost_of_mini_batch_kmeans", flags=SPARSE
    ),
    "AgglomerativeClustering": Counterpart(
        "audit.clustering.trees:TREE_CLAIMS",
        "audit.clustering.trees:tree_of",
        "reduction_costs:cost_of_tree",
    ),
    "GaussianMixture": Counterpart(
        "audit.mixtures.em:MIXTURE_CLAIMS", cost="cost_of_mixture", flags=NAN
    ),
    "AR": Counterpart(
        "audit.generate.series:AR_CLAIMS",
        "audit.generate.series:autoregression_of",
        base="generate.series.data:ModelOfSeries",
        X_test=True,
    ),
    "LDA": Counterpart(
        "audit.topics:LDA_CLAIMS",
        "audit.topics.foreign:lda_of",
        "cost_of_topics",
        base="text.documents:ModelOfCounts",
        flags=SPARSE,
        X_test=True,
        reads="text.foreign:read_documents",
    ),
    "NMF": Counterpart(
        "audit.topics.nmf.factors:NMF_CLAIMS",
        "audit.topics.nmf.foreign:parts_of",
        "cost_of_nmf",
        "completion.data.known_parts:ModelOfParts",
        {**SPARSE, **NAN},
    ),
    "LinearRegression": _linear(
        "least_squares:LEAST_SQUARES_CLAIMS",
        "least_squares_of",
        "cost_of_least_squares",
        REGRESSOR,
        OUTPUTS,
    ),
    "Ridge": _linear(
        "least_squares:RIDGE_CLAIMS", "ridge_of", "cost_of_least_squares", REGRESSOR, OUTPUTS
    ),
    "RidgeCV": _linear(
        "least_squares:RIDGE_CV_CLAIMS", "ridge_of", "cost_of_ridge_cv", REGRESSOR, OUTPUTS
    ),
    "RidgeClassifier": _linear(
        "least_squares:RIDGE_CLAIMS", "ridge_of", "cost_of_least_squares", CLASSIFIER
    ),
    "RobustRegression": _linear(
        "robust:ROBUST_CLAIMS", "robust_of", "cost_of_robust_regression", REGRESSOR
    ),
    "Lasso": _linear("penalised:LASSO_CLAIMS", "lasso_of", "cost_of_lasso", REGRESSOR, OUTPUTS),
    "ElasticNet": _linear(
        "penalised:LASSO_CLAIMS", "lasso_of", "cost_of_lasso", REGRESSOR, OUTPUTS
    ),
    "LassoCV": _linear("penalised:LASSO_CV_CLAIMS", "lasso_of", "cost_of_lasso_cv", REGRESSOR),
    "ElasticNetCV": _linear("penalised:LASSO_CV_CLAIMS", "lasso_of", "cost_of_lasso_cv", REGRESSOR),
    "LogisticRegression": _linear(
        "penalised:LOGISTIC_CLAIMS", "logistic_of", "cost_of_logistic_regression", CLASSIFIER
    ),
    "LogisticRegressionCV": _linear(
        "penalised:LOGISTIC_CV_CLAIMS", "logistic_of", "cost_of_logistic_regression", CLASSIFIER
    ),
    "LinearSVC": _linear(
        "penalised:LINEAR_SVC_CLAIMS", "linear_svc_of", "cost_of_linear_svc", CLASSIFIER
    ),
    "SVC": _kernel("svm:SVC_CLAIMS", "machine_of", "cost_of_svm", CLASSIFIER),
    "SVR": _kernel("svm:SVR_CLAIMS", "machine_of", "cost_of_svm", REGRESSOR),
    "KernelRidge": _kernel(
        "kernel_ridge:KERNEL_RIDGE_CLAIMS", "kernel_of", "cost_of_kernel_ridge", REGRESSOR, OUTPUTS
    ),
    "Nystroem": _kernel("feature_maps:NYSTROEM_CLAIMS", "kernel_of", "cost_of_nystroem"),
    "RBFSampler": _kernel(
        "feature_maps:RANDOM_FEATURE_CLAIMS", "cosines_of", "cost_of_random_features"
    ),
    "KNeighborsClassifier": _neighbours("CLASSIFIER_CLAIMS", SEVERAL_OUTPUTS, OUTPUTS),
    "KNeighborsRegressor": _neighbours("REGRESSOR_CLAIMS", REGRESSOR, OUTPUTS),
    "NearestNeighbors": _neighbours("NEIGHBOUR_CLAIMS"),
    "MLPClassifier": _perceptron(MULTILABEL),
    "MLPRegressor": _perceptron(REGRESSOR, {**OUTPUTS, "flattens_column": True}),
}

# who certifies what is no model: kinds of things, and a function of (thing, Request) that may answer None, "not mine"
CERTIFIERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("builtins.tuple",), "generate.diffusion.denoisers:answer_pair"),  # of diffusers
    (
        (
            "gensim.KeyedVectors", "gensim.Word2Vec", "gensim.FastText", "lemmata.WordVectors",
            "builtins.dict", "builtins.tuple",
        ),
        "embedding.vectors.certifying:answer",
    ),
    (
        (
            "lemmata.generate.Density", "lemmata.generate.Flow", "torch.distributions.Distribution",
            "zuko.LazyDistribution", "normflows.NormalizingFlow", "nflows.Flow",
        ),
        "generate.foreign:answer",
    ),
    (("lemmata.generate.Samples",), "generate.judging:answer"),
    (("lemmata.generate.Denoiser",), "generate.diffusion.denoisers:answer"),
    (("torch.nn.Module",), "nets.certifying:answer"),
)  # fmt: skip
