"""Every public name and where it lives: what `import lemmata` shows, `lemmata models` lists and files may name.

A model enters the library by one line here. Nothing is imported until it is used.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """A model: the module that defines it, what it does, where the notes teach it, whose fits it can also certify."""

    module: str
    summary: str
    source: str
    counterparts: tuple[str, ...] = ()


MODELS: dict[str, Entry] = {
    "PCA": Entry(
        "lemmata.reduction.pca",
        "The subspace that keeps most variance",
        "CIL 1.4",
        ("sklearn.decomposition.PCA",),
    ),
    "IncrementalPCA": Entry(
        "lemmata.reduction.incremental_pca",
        "PCA of batches, exact in any order",
        "CIL 1.4",
        ("sklearn.decomposition.IncrementalPCA",),
    ),
    "TruncatedSVD": Entry(
        "lemmata.reduction.truncated_svd",
        "The best rank-k matrix of rows that are not centred, sparse ones too",
        "CIL 2.3",
        ("sklearn.decomposition.TruncatedSVD",),
    ),
    "LinearAutoencoder": Entry(
        "lemmata.reduction.autoencoder",
        "PCA learnt as a two-layer linear network by gradient descent",
        "CIL 1.2, 1.5.3",
    ),
    "Autoencoder": Entry(
        "lemmata.nets.estimators.autoencoder",
        "A code of a few numbers by networks on both sides: PCA with a bend",
        "CIL24 1.5, CIL 1.1",
    ),
    "KernelPCA": Entry(
        "lemmata.reduction.kernel_pca",
        "PCA in the feature space of a kernel",
        "CIL 1.4, ML Kernels",
        ("sklearn.decomposition.KernelPCA",),
    ),
    "SparseCoder": Entry(
        "lemmata.reduction.sparse_coding.coder",
        "Rows as sums of a few atoms of a dictionary that is given",
        "CIL20 9",
        ("sklearn.decomposition.SparseCoder", "sklearn.linear_model.OrthogonalMatchingPursuit"),
    ),
    "DictionaryLearning": Entry(
        "lemmata.reduction.sparse_coding.learning",
        "Atoms that make the rows, a few at a time: K-SVD, MOD or online",
        "CIL20 10",
        (
            "sklearn.decomposition.DictionaryLearning",
            "sklearn.decomposition.MiniBatchDictionaryLearning",
        ),
    ),
    "MeanRatings": Entry(
        "lemmata.completion.baselines.mean_ratings",
        "Mean plus offsets of rows and columns: the baseline of a recommender",
        "CIL 2.1.4, Ex. 2.2",
    ),
    "RankOne": Entry(
        "lemmata.completion.baselines.rank_one",
        "One factor per row and column: power steps, or gradient flow where entries are missing",
        "CIL 2.2",
    ),
    "ImputedSVD": Entry(
        "lemmata.completion.baselines.imputed_svd",
        "Fill the unknown entries with means, then the best rank-k matrix",
        "CIL 2.3.4",
    ),
    "ALS": Entry(
        "lemmata.completion.als.estimator",
        "Low-rank completion by alternating least squares: ratings, explicit or implicit",
        "CIL 2.4",
        ("cmfrec.CMF", "cmfrec.CMF_implicit", "implicit.cpu.als.AlternatingLeastSquares"),
    ),
    "SGDFactorization": Entry(
        "lemmata.completion.sgd.estimator",
        "Biased factorisation by stochastic gradient steps, parallel and deterministic",
        "ML Matrix Factorization",
    ),
    "SingularValueProjection": Entry(
        "lemmata.completion.nuclear.projection",
        "Gradient steps projected onto the matrices of rank k",
        "CIL 2.5.1",
    ),
    "SingularValueThresholding": Entry(
        "lemmata.completion.nuclear.thresholding",
        "The matrix of least nuclear norm that agrees with the known entries",
        "CIL 2.5.2",
    ),
    "SoftImpute": Entry(
        "lemmata.completion.nuclear.soft_impute",
        "Least squares with a nuclear-norm penalty: the convex completion problem",
        "CIL 2.5.2",
    ),
    "KMeans": Entry(
        "lemmata.clustering.kmeans",
        "k centres that serve every row by its nearest one",
        "CIL20 6.2",
        ("sklearn.cluster.KMeans",),
    ),
    "MiniBatchKMeans": Entry(
        "lemmata.clustering.minibatch",
        "k-means by small batches of rows, for data that is large",
        "CIL20 6.2",
        ("sklearn.cluster.MiniBatchKMeans",),
    ),
    "LightweightCoreset": Entry(
        "lemmata.clustering.coresets.estimator",
        "A small weighted sample on which k-means costs nearly the same",
        "CIL20 6.2.3",
    ),
    "GaussianMixture": Entry(
        "lemmata.mixtures.estimators",
        "A mixture of Gaussians by EM, with weights and missing values",
        "CIL 3.1, CIL20 6.3",
        ("sklearn.mixture.GaussianMixture",),
    ),
    "Mixture": Entry(
        "lemmata.mixtures.estimators",
        "A mixture of any family: Bernoulli, Poisson, categorical, multinomial, Gaussian",
        "CIL 3.1",
    ),
    "LDA": Entry(
        "lemmata.topics.lda.estimator",
        "Documents as mixtures of topics, with priors: Gibbs sampling, variational, online",
        "CIL 3.2.4; CIL20 4.4",
        (
            "sklearn.decomposition.LatentDirichletAllocation",
            "gensim.models.LdaModel",
            "tomotopy.LDAModel",
        ),
    ),
    "PLSA": Entry(
        "lemmata.topics.plsa.estimator",
        "Documents as mixtures of topics, by maximum likelihood",
        "CIL 3.2.2, 3.2.3; CIL20 4",
    ),
    "NMF": Entry(
        "lemmata.topics.nmf.estimator",
        "Numbers >= 0 as sums of parts that only add, with missing values and weights",
        "CIL 3.2.6; CIL20 4.5",
        ("sklearn.decomposition.NMF", "sklearn.decomposition.MiniBatchNMF"),
    ),
    "SkipGram": Entry(
        "lemmata.embedding.skipgram.estimator",
        "Words as vectors that predict their neighbours: word2vec, with a true loss",
        "CIL 3.3; CIL20 5.3",
        ("gensim.models.Word2Vec", "gensim.models.FastText", "gensim.models.KeyedVectors"),
    ),
    "PMI": Entry(
        "lemmata.embedding.pmi.estimator",
        "Words as vectors by factorising the mutual information of pairs",
        "CIL 3.3.3; CIL20 5.4",
    ),
    "GloVe": Entry(
        "lemmata.embedding.glove.estimator",
        "Words as vectors whose products are log-counts of pairs, weighted: by steps or least squares",
        "CIL 3.3.4; CIL20 5.4",
    ),
    "FastTextClassifier": Entry(
        "lemmata.embedding.fasttext.estimator",
        "Texts to classes by vectors of words, runs and parts of words, as fast as they are read",
        "ML Text Representation",
    ),
    "Alignment": Entry(
        "lemmata.embedding.alignment.estimator",
        "Two embeddings in one space by the best rotation, with translations of words",
        "CIL20 5.5",
    ),
    "SentenceVectors": Entry(
        "lemmata.embedding.sentences.fixed",
        "Sentences as means of word vectors, weighted and with what all share removed (SIF)",
        "ML Text Representation",
    ),
    "SentenceEmbedding": Entry(
        "lemmata.embedding.sentences.trained",
        "Word vectors trained to be averaged: sentences that predict their words or their neighbours",
        "ML Text Representation",
    ),
    "LinearRegression": Entry(
        "lemmata.predict.least_squares.estimator",
        "Least squares, with standard errors, intervals, leverage and summary()",
        "ML Linear Regression",
        (
            "sklearn.linear_model.LinearRegression",
            "statsmodels.regression.linear_model.RegressionResultsWrapper",
        ),
    ),
    "Ridge": Entry(
        "lemmata.predict.least_squares.ridge",
        "Least squares with an ℓ2 penalty: primal, dual or conjugate gradients by shape",
        "ML Ridge Regression",
        ("sklearn.linear_model.Ridge",),
    ),
    "RidgeCV": Entry(
        "lemmata.predict.least_squares.ridge_cv",
        "Ridge that chooses its penalty by the leave-one-out errors of all at once",
        "ML Ridge Regression, Cross-validation",
        ("sklearn.linear_model.RidgeCV",),
    ),
    "RobustRegression": Entry(
        "lemmata.predict.robust.estimator",
        "Absolute, Huber's or Tukey's loss: outliers cannot turn it, and are named",
        "ML Huber loss, Tukey's bisquare",
        ("sklearn.linear_model.HuberRegressor",),
    ),
    "Lasso": Entry(
        "lemmata.predict.lasso.estimator",
        "Least squares with an ℓ1 penalty: few weights that are not zero",
        "ML Lasso",
        ("sklearn.linear_model.Lasso", "celer.Lasso", "skglm.Lasso", "skglm.WeightedLasso"),
    ),
    "LassoCV": Entry(
        "lemmata.predict.lasso.cv",
        "The Lasso whose penalty is chosen by cross-validation",
        "ML Lasso, Cross-validation",
        ("sklearn.linear_model.LassoCV", "celer.LassoCV"),
    ),
    "LassoPath": Entry(
        "lemmata.predict.lasso.path",
        "Every penalty of a Lasso or elastic net path, each certified",
        "ML Lasso",
    ),
    "ElasticNet": Entry(
        "lemmata.predict.lasso.estimator",
        "Least squares with ℓ1 and ℓ2 penalties",
        "ML Lasso, Ridge Regression",
        ("sklearn.linear_model.ElasticNet", "celer.ElasticNet", "skglm.ElasticNet"),
    ),
    "ElasticNetCV": Entry(
        "lemmata.predict.lasso.cv",
        "The elastic net whose penalties are chosen by cross-validation",
        "ML Lasso, Cross-validation",
        ("sklearn.linear_model.ElasticNetCV", "celer.ElasticNetCV"),
    ),
    "LogisticRegression": Entry(
        "lemmata.predict.logistic.estimator",
        "The probability of each class from linear scores",
        "ML Logistic Regression",
        (
            "sklearn.linear_model.LogisticRegression",
            "sklearn.linear_model.SGDClassifier",
            "statsmodels.discrete.discrete_model.BinaryResultsWrapper",
            "skglm.SparseLogisticRegression",
        ),
    ),
    "LinearSVC": Entry(
        "lemmata.predict.linear_svm.estimator",
        "The widest margin between classes: hinge, squared hinge or hard",
        "ML Support Vector Machines",
        ("sklearn.svm.LinearSVC",),
    ),
    "SVC": Entry(
        "lemmata.predict.svm.estimators",
        "The widest margin between classes, in the feature space of a kernel",
        "ML Kernel SVM",
        ("sklearn.svm.SVC",),
    ),
    "SVR": Entry(
        "lemmata.predict.svm.estimators",
        "Regression that forgives errors up to ε, in the feature space of a kernel",
        "ML Kernels",
        ("sklearn.svm.SVR",),
    ),
    "KNeighborsClassifier": Entry(
        "lemmata.predict.neighbours.estimators",
        "The label most frequent among the k nearest rows",
        "ML k-Nearest Neighbors",
        ("sklearn.neighbors.KNeighborsClassifier",),
    ),
    "KNeighborsRegressor": Entry(
        "lemmata.predict.neighbours.estimators",
        "The mean target of the k nearest rows",
        "ML k-Nearest Neighbors",
        ("sklearn.neighbors.KNeighborsRegressor",),
    ),
    "NearestNeighbors": Entry(
        "lemmata.predict.neighbours.estimators",
        "The exact nearest rows, and all rows within a radius",
        "ML k-Nearest Neighbors",
        ("sklearn.neighbors.NearestNeighbors",),
    ),
    "KernelSmoother": Entry(
        "lemmata.predict.neighbours.smoothing",
        "A mean of all targets in which nearer rows count more (Nadaraya–Watson)",
        "ML Kernel Regression",
    ),
    "KernelRidge": Entry(
        "lemmata.predict.kernel_ridge",
        "Ridge regression in the feature space of a kernel",
        "ML Kernelized ridge regression",
        ("sklearn.kernel_ridge.KernelRidge",),
    ),
    "Nystroem": Entry(
        "lemmata.predict.sampled_features",
        "Features of a kernel from some of the rows, for linear models of many rows",
        "ML Kernels",
        ("sklearn.kernel_approximation.Nystroem",),
    ),
    "RBFSampler": Entry(
        "lemmata.predict.sampled_features",
        "Random cosines whose products are near the RBF kernel's",
        "ML Kernels",
        ("sklearn.kernel_approximation.RBFSampler",),
    ),
    "MLPClassifier": Entry(
        "lemmata.nets.mlp.estimators",
        "Classes from layers of units, with backpropagation by hand",
        "CIL 4.1–4.2",
        ("sklearn.neural_network.MLPClassifier",),
    ),
    "MLPRegressor": Entry(
        "lemmata.nets.mlp.estimators",
        "Numbers from layers of units, with backpropagation by hand",
        "CIL 4.1–4.2",
        ("sklearn.neural_network.MLPRegressor",),
    ),
    "NeuralClassifier": Entry(
        "lemmata.nets.estimators.supervised",
        "Any torch network that tells classes apart, trained by the one loop",
        "CIL 4, ML Deep Learning",
    ),
    "NeuralRegressor": Entry(
        "lemmata.nets.estimators.supervised",
        "Any torch network that predicts numbers, trained by the one loop",
        "CIL 4, ML Deep Learning",
    ),
}

FUNCTIONS: dict[str, str] = {
    "certify": "lemmata.core.certify",
    "config": "lemmata.core.config",
    "save": "lemmata.core.store",
    "load": "lemmata.core.store",
    "NotCertified": "lemmata.core.certificate",
    "Pairs": "lemmata.completion.data.pairs",
}

SUBPACKAGES = (
    "atlas",
    "clustering",
    "completion",
    "core",
    "data",
    "embedding",
    "linalg",
    "mixtures",
    "nets",
    "optim",
    "predict",
    "reduction",
    "text",
    "topics",
    "trust",
)

# searches for what a claim asks for by `fit.witness(name)`: the module that has the function of that name
WITNESSES: dict[str, str] = {
    "lowest_on_line": "lemmata.completion.witness",
    "further_factor": "lemmata.completion.witness",
    "singular_triplets": "lemmata.completion.witness",
    "better_mixtures": "lemmata.topics.witness",
    "coefficients": "lemmata.topics.witness",
    "fitted_mixtures": "lemmata.topics.witness",
    "better_network_weights": "lemmata.nets.witness",
    "linear_baseline": "lemmata.nets.witness",
    "better_machine": "lemmata.predict.svm.witness",
    "better_ridge": "lemmata.predict.svm.witness",
    "better_codes": "lemmata.reduction.sparse_coding.witness",
    "other_codes": "lemmata.reduction.sparse_coding.witness",
    "atoms_of_another_start": "lemmata.reduction.sparse_coding.witness",
    "better_huber_fit": "lemmata.predict.witness.better_weights",
    "better_weights": "lemmata.predict.witness.better_weights",
    "dual_points": "lemmata.predict.witness.dual_points",
    "feasible_slopes": "lemmata.predict.witness.dual_points",
    "separating_direction": "lemmata.predict.witness.separation",
    "better_centers": "lemmata.clustering.witness",
    "coreset_centers": "lemmata.clustering.witness",
    "multipliers": "lemmata.clustering.witness",
    "refit_centers": "lemmata.clustering.witness",
    "subset_plan": "lemmata.clustering.witness",
    "climb_by_leaps": "lemmata.mixtures.witness",
    "climb_from_nudges": "lemmata.mixtures.witness",
    "fewer_components": "lemmata.mixtures.witness",
    "refit_mixture": "lemmata.mixtures.witness",
}


def module_of(name: str) -> str | None:
    """The module that defines the public name, or None if there is no such name."""
    return MODELS[name].module if name in MODELS else FUNCTIONS.get(name)


def model_class(name: str):
    """The class of a model by its public name; KeyError for any other name."""
    import importlib

    return getattr(importlib.import_module(MODELS[name].module), name)


def resolve(name: str):
    """The value that "module:name" stands for, the module below lemmata; imported now."""
    import importlib

    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(f"lemmata.{module}"), attribute)


def is_named(cls: type, name: str) -> bool:
    """Whether a class is called so: "sklearn.decomposition.PCA", wherever below that package it stands."""
    package, _, own = name.rpartition(".")
    return cls.__name__ == own and (cls.__module__ + ".").startswith(package + ".")


def markdown() -> str:
    """The table of models, as it stands in README.md."""
    rows = [
        f"| `{name}` | {entry.summary} | {entry.source} | {', '.join(f'`{foreign}`' for foreign in entry.counterparts)} |"
        for name, entry in MODELS.items()
    ]
    return "\n".join(
        ["| model | what it does | in the notes | also certifies |", "|---|---|---|---|", *rows]
    )


def parameter(name: str, word: str) -> str:
    """The meaning of a model's parameter, on one line; "" if it has no such parameter."""
    declared = model_class(name).declared_parameters.get(word)
    return " ".join(declared.meaning.split()) if declared else ""


def tolerances() -> str:
    """The table of what `tol` means, model by model, as it stands in docs/core.md."""
    rows = []
    for name in MODELS:
        parameters = model_class(name)().get_params(deep=False)
        if "tol" in parameters:
            words = parameter(name, "tol").replace("|", r"\|")
            rows.append(f"| `{name}` | {parameters['tol']:g} | {words} |")
    return "\n".join(
        ["| model | default | what falls below `tol` at the end |", "|---|---|---|", *rows]
    )
