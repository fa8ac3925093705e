"""Every public name and where it lives: what `import lemmata` shows, `lemmata models` lists and files may name.

A model enters the library by one line here. Nothing is imported until it is used.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A model: the module that defines it, what it does, where the notes teach it, whose fits it can also certify.

    Its task is one of TASKS, its keywords are what people type who do not know its name.
    """

    module: str
    summary: str
    source: str
    counterparts: tuple[str, ...] = ()
    task: str = ""
    keywords: str = ""


# in the order of every list of models: `lemmata models`, README.md, docs/which-model.md, the tree of the site
TASKS = (
    "predict a number", "predict a class", "reduce dimensions, code", "cluster, estimate densities",
    "complete a matrix, recommend", "find topics and parts", "embed words and sentences", "model language",
    "forecast, generate", "encode without labels",
)  # fmt: skip


MODELS: dict[str, Entry] = {
    "PCA": Entry(
        "lemmata.reduction.pca", "Principal component analysis", "CIL 1.4",
        task="reduce dimensions, code", keywords="principal components svd",
        counterparts=("sklearn.decomposition.PCA",)),
    "IncrementalPCA": Entry(
        "lemmata.reduction.incremental_pca", "PCA of batches, exact in any order", "CIL 1.4",
        task="reduce dimensions, code", keywords="online",
        counterparts=("sklearn.decomposition.IncrementalPCA",)),
    "TruncatedSVD": Entry(
        "lemmata.reduction.truncated_svd", "SVD without centring (LSA), sparse rows too",
        "CIL 2.3", task="reduce dimensions, code", keywords="lsa lsi",
        counterparts=("sklearn.decomposition.TruncatedSVD",)),
    "LinearAutoencoder": Entry(
        "lemmata.reduction.autoencoder", "PCA learned as a linear network by gradients",
        "CIL 1.2, 1.5.3", task="reduce dimensions, code"),
    "Autoencoder": Entry(
        "lemmata.nets.estimators.autoencoder", "Nonlinear dimension reduction by two networks",
        "CIL24 1.5, CIL 1.1", task="reduce dimensions, code", keywords="neural network deep"),
    "KernelPCA": Entry(
        "lemmata.reduction.kernel_pca", "PCA in the feature space of a kernel",
        "CIL 1.4, ML Kernel trick", task="reduce dimensions, code", keywords="rbf",
        counterparts=("sklearn.decomposition.KernelPCA",)),
    "SparseCoder": Entry(
        "lemmata.reduction.sparse_coding.coder", "Sparse codes of rows for a given dictionary",
        "CIL20 9", task="reduce dimensions, code", keywords="omp matching pursuit",
        counterparts=("sklearn.decomposition.SparseCoder", "sklearn.linear_model.OrthogonalMatchingPursuit")),
    "DictionaryLearning": Entry(
        "lemmata.reduction.sparse_coding.learning", "Dictionary learning: K-SVD, MOD or online",
        "CIL20 10", task="reduce dimensions, code", keywords="k-svd sparse coding",
        counterparts=("sklearn.decomposition.DictionaryLearning", "sklearn.decomposition.MiniBatchDictionaryLearning")),
    "MeanRatings": Entry(
        "lemmata.completion.baselines.mean_ratings",
        "Mean plus user and item offsets: the baseline", "CIL 2.1.4, Ex. 2.2",
        task="complete a matrix, recommend", keywords="baseline"),
    "RankOne": Entry(
        "lemmata.completion.baselines.rank_one", "One factor per row and column", "CIL 2.2",
        task="complete a matrix, recommend"),
    "ImputedSVD": Entry(
        "lemmata.completion.baselines.imputed_svd", "Fill unknown entries with means, then SVD",
        "CIL 2.3.4", task="complete a matrix, recommend", keywords="missing values"),
    "ALS": Entry(
        "lemmata.completion.als.estimator", "Alternating least squares, explicit or implicit",
        "CIL 2.4", task="complete a matrix, recommend",
        keywords="recommender collaborative filtering implicit",
        counterparts=("cmfrec.CMF", "cmfrec.CMF_implicit", "implicit.cpu.als.AlternatingLeastSquares")),
    "SGDFactorization": Entry(
        "lemmata.completion.sgd.estimator", "Biased matrix factorisation by SGD, parallel",
        "ML Matrix Factorization", task="complete a matrix, recommend",
        keywords="recommender svd funk biases"),
    "NuclearBall": Entry(
        "lemmata.completion.nuclear.ball", "Nearest matrix in a ball of the nuclear norm",
        "CIL20 3.4.3", task="complete a matrix, recommend", keywords="frank wolfe conditional gradient"),
    "SingularValueProjection": Entry(
        "lemmata.completion.nuclear.projection", "Projected gradients onto matrices of rank k",
        "CIL 2.5.1", task="complete a matrix, recommend", keywords="iht"),
    "SingularValueThresholding": Entry(
        "lemmata.completion.nuclear.thresholding",
        "Least nuclear norm that agrees with the entries", "CIL 2.5.2",
        task="complete a matrix, recommend", keywords="svt nuclear norm"),
    "SoftImpute": Entry(
        "lemmata.completion.nuclear.soft_impute", "Nuclear-norm penalty: convex completion",
        "CIL 2.5.2", task="complete a matrix, recommend", keywords="missing values nuclear norm"),
    "KMeans": Entry(
        "lemmata.clustering.kmeans", "k-means, with a bound on how far from the best", "CIL20 6.2",
        task="cluster, estimate densities", keywords="k-means clustering",
        counterparts=("sklearn.cluster.KMeans",)),
    "MiniBatchKMeans": Entry(
        "lemmata.clustering.minibatch", "k-means by small batches, for large data", "CIL20 6.2",
        task="cluster, estimate densities", keywords="k-means clustering online",
        counterparts=("sklearn.cluster.MiniBatchKMeans",)),
    "AgglomerativeClustering": Entry(
        "lemmata.clustering.agglomerative", "A tree of clusters: the closest are merged",
        "ML Examples for Representation Learning", task="cluster, estimate densities",
        keywords="hierarchical clustering dendrogram linkage ward",
        counterparts=("sklearn.cluster.AgglomerativeClustering",)),
    "LightweightCoreset": Entry(
        "lemmata.clustering.coresets.estimator",
        "A small weighted sample that stands for the rows", "CIL20 6.2.3",
        task="cluster, estimate densities", keywords="sampling"),
    "GaussianMixture": Entry(
        "lemmata.mixtures.estimators", "Gaussian mixture by EM, with gaps and weights",
        "CIL 3.1, CIL20 6.3", task="cluster, estimate densities", keywords="gmm em clustering",
        counterparts=("sklearn.mixture.GaussianMixture",)),
    "Mixture": Entry(
        "lemmata.mixtures.estimators", "Mixtures of Bernoulli, Poisson, categorical, …", "CIL 3.1",
        task="cluster, estimate densities", keywords="em clustering"),
    "LDA": Entry(
        "lemmata.topics.lda.estimator", "Latent Dirichlet allocation: Gibbs, variational",
        "CIL 3.2.4; CIL20 4.4", task="find topics and parts", keywords="topic model gibbs",
        counterparts=("sklearn.decomposition.LatentDirichletAllocation", "gensim.models.LdaModel", "tomotopy.LDAModel")),
    "LatentDirichletAllocation": Entry(
        "lemmata.topics.allocation", "LDA with scikit-learn's names and defaults",
        "CIL 3.2.4; CIL20 4.4", task="find topics and parts", keywords="topic model"),
    "PLSA": Entry(
        "lemmata.topics.plsa.estimator", "Probabilistic latent semantic analysis",
        "CIL 3.2.2, 3.2.3; CIL20 4", task="find topics and parts", keywords="topic model"),
    "NMF": Entry(
        "lemmata.topics.nmf.estimator", "Non-negative matrix factorisation, with gaps",
        "CIL 3.2.6; CIL20 4.5", task="find topics and parts", keywords="nonnegative parts",
        counterparts=("sklearn.decomposition.NMF", "sklearn.decomposition.MiniBatchNMF")),
    "SkipGram": Entry(
        "lemmata.embedding.skipgram.estimator", "word2vec: skip-gram, CBOW, parts of words",
        "CIL 3.3; CIL20 5.3", task="embed words and sentences",
        keywords="word2vec cbow fasttext embeddings",
        counterparts=("gensim.models.Word2Vec", "gensim.models.FastText", "gensim.models.KeyedVectors")),
    "PMI": Entry(
        "lemmata.embedding.pmi.estimator", "Word vectors from pointwise mutual information",
        "CIL 3.3.3; CIL20 5.4", task="embed words and sentences", keywords="embeddings"),
    "GloVe": Entry(
        "lemmata.embedding.glove.estimator", "Word vectors from weighted log-counts of pairs",
        "CIL 3.3.4; CIL20 5.4", task="embed words and sentences", keywords="embeddings"),
    "FastTextClassifier": Entry(
        "lemmata.embedding.fasttext.estimator", "fastText: classes of texts, fast",
        "ML Text Representation", task="predict a class", keywords="text sentiment"),
    "Alignment": Entry(
        "lemmata.embedding.alignment.estimator", "Two embeddings in one space; translates words",
        "CIL20 5.5", task="embed words and sentences", keywords="translation procrustes bilingual"),
    "SentenceVectors": Entry(
        "lemmata.embedding.sentences.fixed", "Vectors of sentences from vectors of words",
        "ML Text Representation", task="embed words and sentences", keywords="sif doc2vec"),
    "SentenceEmbedding": Entry(
        "lemmata.embedding.sentences.trained", "Vectors of sentences, trained",
        "ML Text Representation", task="embed words and sentences", keywords="sent2vec doc2vec"),
    "LinearRegression": Entry(
        "lemmata.predict.least_squares.estimator", "Least squares, with intervals and p-values",
        "ML Linear Regression", task="predict a number", keywords="ols ordinary least squares",
        counterparts=("sklearn.linear_model.LinearRegression", "statsmodels.regression.linear_model.RegressionResultsWrapper")),
    "Ridge": Entry(
        "lemmata.predict.least_squares.ridge", "Least squares with an ℓ2 penalty",
        "ML L₂-Regularization", task="predict a number", keywords="l2 tikhonov",
        counterparts=("sklearn.linear_model.Ridge",)),
    "RidgeCV": Entry(
        "lemmata.predict.least_squares.ridge_cv", "Ridge that chooses its penalty (leave-one-out)",
        "ML L₂-Regularization, Model Selection", task="predict a number", keywords="l2",
        counterparts=("sklearn.linear_model.RidgeCV",)),
    "RidgeClassifier": Entry(
        "lemmata.predict.least_squares.ridge_classifier", "Ridge regression of ±1, for classes",
        "ML L₂-Regularization", task="predict a class", keywords="l2",
        counterparts=("sklearn.linear_model.RidgeClassifier",)),
    "RobustRegression": Entry(
        "lemmata.predict.robust.estimator", "Absolute, Huber's or Tukey's loss; names outliers",
        "ML Loss Functions", task="predict a number", keywords="outliers tukey lad",
        counterparts=("sklearn.linear_model.HuberRegressor",)),
    "HuberRegressor": Entry(
        "lemmata.predict.robust.estimator", "Huber's loss with scikit-learn's parameters",
        "ML Huber loss", task="predict a number", keywords="outliers robust"),
    "Lasso": Entry(
        "lemmata.predict.lasso.estimator", "Least squares with an ℓ1 penalty: few weights",
        "ML L₁-Regularization", task="predict a number", keywords="l1 sparse",
        counterparts=("sklearn.linear_model.Lasso", "celer.Lasso", "skglm.Lasso", "skglm.WeightedLasso")),
    "LassoCV": Entry(
        "lemmata.predict.lasso.cv", "Lasso, penalty chosen by cross-validation",
        "ML L₁-Regularization, Model Selection", task="predict a number", keywords="l1 sparse",
        counterparts=("sklearn.linear_model.LassoCV", "celer.LassoCV")),
    "LassoPath": Entry(
        "lemmata.predict.lasso.path", "Every penalty of a Lasso path, each certified",
        "ML L₁-Regularization", task="predict a number",
        keywords="l1 sparse lars regularisation path"),
    "ElasticNet": Entry(
        "lemmata.predict.lasso.estimator", "Least squares with ℓ1 and ℓ2 penalties",
        "ML L₁-Regularization, L₂-Regularization", task="predict a number", keywords="l1 l2",
        counterparts=("sklearn.linear_model.ElasticNet", "celer.ElasticNet", "skglm.ElasticNet")),
    "ElasticNetCV": Entry(
        "lemmata.predict.lasso.cv", "Elastic net, penalties by cross-validation",
        "ML L₁-Regularization, Model Selection", task="predict a number", keywords="l1 l2",
        counterparts=("sklearn.linear_model.ElasticNetCV", "celer.ElasticNetCV")),
    "LogisticRegression": Entry(
        "lemmata.predict.logistic.estimator", "Logistic and softmax regression, ℓ1 or ℓ2",
        "ML Logistic Regression", task="predict a class", keywords="logit softmax multinomial",
        counterparts=(
            "sklearn.linear_model.LogisticRegression", "sklearn.linear_model.SGDClassifier",
            "statsmodels.discrete.discrete_model.BinaryResultsWrapper", "skglm.SparseLogisticRegression",
        )),
    "LogisticRegressionCV": Entry(
        "lemmata.predict.logistic.cv", "Logistic regression, penalty by cross-validation",
        "ML Logistic Regression, Model Selection", task="predict a class", keywords="logit",
        counterparts=("sklearn.linear_model.LogisticRegressionCV",)),
    "SGDClassifier": Entry(
        "lemmata.predict.linear_svm.sgd_classifier", "Linear classifiers by stochastic gradients",
        "ML Classification", task="predict a class", keywords="online"),
    "LinearSVC": Entry(
        "lemmata.predict.linear_svm.estimator", "Linear support vector machine",
        "ML Support Vector Machines", task="predict a class", keywords="svm",
        counterparts=("sklearn.svm.LinearSVC",)),
    "SVC": Entry(
        "lemmata.predict.svm.estimators", "Support vector machine with a kernel",
        "ML Application to SVM, Kernel trick", task="predict a class", keywords="svm rbf",
        counterparts=("sklearn.svm.SVC",)),
    "SVR": Entry(
        "lemmata.predict.svm.estimators", "Support vector regression with a kernel",
        "ML Kernel trick", task="predict a number", keywords="svm",
        counterparts=("sklearn.svm.SVR",)),
    "KNeighborsClassifier": Entry(
        "lemmata.predict.neighbours.estimators", "k nearest neighbours, for classes",
        "ML k-Nearest Neighbors", task="predict a class", keywords="knn nearest",
        counterparts=("sklearn.neighbors.KNeighborsClassifier",)),
    "KNeighborsRegressor": Entry(
        "lemmata.predict.neighbours.estimators", "k nearest neighbours, for numbers",
        "ML k-Nearest Neighbors", task="predict a number", keywords="knn nearest",
        counterparts=("sklearn.neighbors.KNeighborsRegressor",)),
    "NearestNeighbors": Entry(
        "lemmata.predict.neighbours.estimators", "Exact nearest neighbours",
        "ML k-Nearest Neighbors", task="cluster, estimate densities", keywords="knn search index",
        counterparts=("sklearn.neighbors.NearestNeighbors",)),
    "KernelSmoother": Entry(
        "lemmata.predict.neighbours.smoothing", "Kernel regression (Nadaraya–Watson)",
        "ML Kernel Regression", task="predict a number", keywords="nadaraya watson"),
    "KernelRidge": Entry(
        "lemmata.predict.kernel_ridge", "Ridge regression with a kernel",
        "ML Kernelized ridge regression", task="predict a number", keywords="rbf gaussian process",
        counterparts=("sklearn.kernel_ridge.KernelRidge",)),
    "Nystroem": Entry(
        "lemmata.predict.sampled_features", "Features of a kernel from some of the rows",
        "ML Kernel trick", task="reduce dimensions, code", keywords="kernel features",
        counterparts=("sklearn.kernel_approximation.Nystroem",)),
    "RBFSampler": Entry(
        "lemmata.predict.sampled_features", "Random Fourier features of the RBF kernel",
        "ML Kernel trick", task="reduce dimensions, code", keywords="random fourier features",
        counterparts=("sklearn.kernel_approximation.RBFSampler",)),
    "MLPClassifier": Entry(
        "lemmata.nets.mlp.estimators", "Multilayer perceptron for classes, by hand", "CIL 4.1–4.2",
        task="predict a class", keywords="neural network",
        counterparts=("sklearn.neural_network.MLPClassifier",)),
    "MLPRegressor": Entry(
        "lemmata.nets.mlp.estimators", "Multilayer perceptron for numbers, by hand", "CIL 4.1–4.2",
        task="predict a number", keywords="neural network",
        counterparts=("sklearn.neural_network.MLPRegressor",)),
    "NeuralClassifier": Entry(
        "lemmata.nets.estimators.supervised", "Any PyTorch network for classes",
        "CIL 4, ML Deep Learning", task="predict a class",
        keywords="neural network pytorch deep cnn convnet resnet vit transformer"),
    "NeuralRegressor": Entry(
        "lemmata.nets.estimators.supervised", "Any PyTorch network for numbers",
        "CIL 4, ML Deep Learning", task="predict a number", keywords="neural network pytorch deep"),
    "AR": Entry(
        "lemmata.generate.series.estimator", "Autoregressive model of time series", "CIL 5.1",
        task="forecast, generate", keywords="time series autoregression yule-walker burg forecast",
        counterparts=("statsmodels.tsa.ar_model.AutoRegResultsWrapper",)),
    "PixelCNN": Entry(
        "lemmata.generate.pixels.estimator", "Images pixel by pixel, exact probabilities",
        "CIL 5.1.3", task="forecast, generate", keywords="images autoregressive"),
    "WaveNet": Entry(
        "lemmata.generate.pixels.estimator", "Sounds sample by sample, exact probabilities",
        "CIL 5.1", task="forecast, generate", keywords="audio sound"),
    "NormalizingFlow": Entry(
        "lemmata.generate.flows.estimator", "A density by invertible maps: exact ln p, draws",
        "CIL 5.2", task="forecast, generate", keywords="realnvp glow nice spline density"),
    "VAE": Entry(
        "lemmata.generate.vae.estimator", "Variational autoencoder: draws and a bound on ln p",
        "CIL 5.3", task="forecast, generate", keywords="variational autoencoder"),
    "Diffusion": Entry(
        "lemmata.generate.diffusion.estimator", "Diffusion model: rows from noise, step by step",
        "CIL 5.5, ML Diffusion models", task="forecast, generate", keywords="ddpm denoising score"),
    "GAN": Entry(
        "lemmata.generate.gan.estimator", "Generative adversarial network: draws new rows",
        "CIL 5.4, ML GANs", task="forecast, generate", keywords="adversarial dcgan wgan"),
    "SimCLR": Entry(
        "lemmata.selfsup.simclr", "Encoder without labels, by contrast of views", "ML SimCLR",
        task="encode without labels", keywords="self-supervised contrastive representation"),
    "BYOL": Entry(
        "lemmata.selfsup.byol", "Encoder without labels, predicting its slow copy", "ML BYOL",
        task="encode without labels", keywords="self-supervised contrastive representation"),
    "VICReg": Entry(
        "lemmata.selfsup.vicreg", "Encoder without labels: variance and covariance", "ML VICReg",
        task="encode without labels", keywords="self-supervised contrastive representation"),
    "CLIP": Entry(
        "lemmata.selfsup.clip", "Images and captions in one space; classes by name", "ML CLIP",
        task="encode without labels", keywords="zero-shot images captions retrieval contrastive"),
    "NGram": Entry(
        "lemmata.language.ngrams", "The next token by counts: Kneser–Ney", "ML Language Models",
        task="model language", keywords="language model kneser-ney text"),
    "GPT": Entry(
        "lemmata.language.gpt", "A transformer that predicts the next token", "ML Language Models",
        task="model language", keywords="language model transformer llm text generation"),
    "BERT": Entry(
        "lemmata.language.bert", "A transformer that fills in hidden words", "ML Self-supervised Learning",
        task="model language", keywords="masked language model encoder sentence embedding"),
    "TextClassifier": Entry(
        "lemmata.language.heads", "Classes of texts, by a transformer", "ML Self-supervised Learning",
        task="predict a class", keywords="bert fine-tuning sentiment sentences pairs"),
    "TokenClassifier": Entry(
        "lemmata.language.word_heads", "A label for each word of a text", "ML Self-supervised Learning",
        task="model language", keywords="tagging named entities part of speech"),
    "SpanFinder": Entry(
        "lemmata.language.word_heads", "Where the answer to a question stands", "ML Self-supervised Learning",
        task="model language", keywords="question answering extraction"),
    "Translator": Entry(
        "lemmata.language.translate", "An encoder and a decoder: from one text to another",
        "ML Transformers", task="model language",
        keywords="seq2seq machine translation encoder decoder"),
}  # fmt: skip


def models_by_task() -> dict[str, list[str]]:
    """Return the names of the models below each task."""
    return {task: [name for name, one in MODELS.items() if one.task == task] for task in TASKS}


FUNCTIONS: dict[str, str] = {
    "certify": "lemmata.core.certification.certify",
    "config": "lemmata.core.engine",
    "save": "lemmata.core.store",
    "load": "lemmata.core.store",
    "NotCertified": "lemmata.core.certificate",
    "Pairs": "lemmata.completion.data.pairs",
}

# storable parameters that the module of no model imports
PARTS: dict[str, str] = {"AdversarialTraining": "lemmata.trust.robust.training"}

SUBPACKAGES = (
    "atlas", "clustering", "completion", "core", "data", "embedding", "generate", "language", "linalg", "mixtures", "nets",
    "optim", "predict", "reduction", "selfsup", "text", "topics", "trust",
)  # fmt: skip


def public_names() -> dict[str, str]:
    """Return the modules that `import lemmata` takes names from, each with those names."""
    found = {name: name for name in SUBPACKAGES}
    for name, module in [*((name, one.module) for name, one in MODELS.items()), *FUNCTIONS.items()]:
        found[module] = f"{found.get(module, '')} {name}"
    return found


def model_class(name: str):
    """The class of a model by its public name; KeyError for any other name."""
    return getattr(import_module(MODELS[name].module), name)


def resolve(name: str):
    """The value that "module:name" stands for, the module below lemmata; imported now."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"lemmata.{module}"), attribute)


def is_named(cls: type, name: str) -> bool:
    """Whether a class is called so: "sklearn.decomposition.PCA", wherever below that package it stands."""
    package, _, own = name.rpartition(".")
    return cls.__name__ == own and (cls.__module__ + ".").startswith(package + ".")


# --- names of a package that are imported on first use (PEP 562): a package costs what is used of it ------------------
#
#     __getattr__, __dir__, __all__ = lazily(__name__, {"kmeans": "KMeans", "seeding": "seeding"})
#
# Each module stands beside the names that it defines; a module is named by itself.


def require(module: str, extra: str, what: str = "this") -> ModuleType:
    """An optional dependency; where it is not installed, the error names the extra that brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # it is there, and something that it needs is not
            raise
        raise ModuleNotFoundError(
            f"{what} needs {module}, which is not installed: pip install 'lemmata[{extra}]'.",
            name=module,
        ) from None


def lazily(
    package: str, modules: Mapping[str, str], extra: tuple[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package whose names live in these modules of it.

    modules : the names that each module brings, with spaces between them
    extra : (module, extra), if some of the modules stand on an optional dependency: without it the error says what to install
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}
    names = sorted(homes)

    def __getattr__(name: str) -> Any:
        if name not in homes:
            from difflib import get_close_matches

            near = get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names)}."
            raise AttributeError(f"module {package!r} has no attribute {name!r}; {hint}")
        home = homes[name]
        try:
            module = import_module(home if home.startswith("lemmata.") else f"{package}.{home}")
        except ModuleNotFoundError as error:
            if extra and error.name == extra[0]:
                require(*extra, what=f"{package}.{name}")
            raise
        # a module may hold a function of its own name, as that of `certify` does
        is_module = home.rpartition(".")[2] == name and name not in vars(module)
        return module if is_module else getattr(module, name)

    return __getattr__, lambda: names, names
