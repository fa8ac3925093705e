"""The table of docs/which-model.md: every model below its task, a line of code, its cost, what it takes, its counterparts.

Tasks, summaries and counterparts come from the registry, what a model takes from its tags; costs are written here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from lemmata import registry

# what a fit does to n rows and d columns: k components or centres, t steps, |Ω| known entries, L tokens
COSTS = {
    "nd² + d³, once": "LinearRegression Ridge RidgeCV RidgeClassifier PCA IncrementalPCA LinearAutoencoder",
    "ndk a step": "TruncatedSVD KMeans MiniBatchKMeans Mixture NMF",
    "nd² a step": "RobustRegression HuberRegressor",
    "nd a pass over the columns": "Lasso LassoCV LassoPath ElasticNet ElasticNetCV LinearSVC SGDClassifier",
    "nd a step": "LogisticRegression LogisticRegressionCV",
    "n²d, and n² numbers": "SVC SVR",
    "n²d + n³, and n² numbers": "KernelRidge KernelPCA",
    "n²d, and n² numbers in memory": "AgglomerativeClustering",
    "n²d at most, for n questions": "KNeighborsClassifier KNeighborsRegressor NearestNeighbors KernelSmoother",
    "ndk + nk²": "Nystroem RBFSampler",
    "nd, twice": "LightweightCoreset",
    "nkd² a step, nkd if diagonal": "GaussianMixture",
    "nd · atoms a pass": "SparseCoder DictionaryLearning",
    "weights · n an epoch": "MLPClassifier MLPRegressor NeuralClassifier NeuralRegressor Autoencoder PixelCNN "
    "WaveNet NormalizingFlow VAE Diffusion GAN SimCLR BYOL VICReg CLIP GPT BERT Translator TextClassifier "
    "TokenClassifier SpanFinder",
    "|Ω|k² a sweep": "ALS",
    "|Ω|k an epoch": "SGDFactorization",
    "|Ω|k a step, with an SVD of rank k": "SoftImpute SingularValueThresholding SingularValueProjection ImputedSVD NuclearBall",
    "|Ω| a step": "MeanRatings RankOne",
    "tokens · k a sweep": "LDA LatentDirichletAllocation PLSA",
    "L · window · k an epoch": "SkipGram SentenceEmbedding FastTextClassifier",
    "pairs · k a step": "PMI GloVe",
    "words · k²": "Alignment SentenceVectors",
    "n · order": "AR",
    "L · order, once": "NGram",
}  # fmt: skip
DATA = {
    "predict a number": "X, y", "predict a class": "X, y", "complete a matrix, recommend": "ratings",
    "find topics and parts": "counts", "embed words and sentences": "texts", "model language": "text",
    "encode without labels": "images",
}  # fmt: skip
OWN_DATA = {
    "FastTextClassifier": "texts, labels", "Alignment": "source, target, pairs", "PixelCNN": "images",
    "WaveNet": "sounds", "AR": "series", "Translator": "sources, targets", "CLIP": "images, captions",
    "TextClassifier": "texts, labels", "TokenClassifier": "texts, labels", "SpanFinder": "questions_and_texts, spans",
}  # fmt: skip


def cost_of(name: str) -> str:
    """The cost of a model's fit; "" where none is written."""
    return next((cost for cost, names in COSTS.items() if name in names.split()), "")


def line_for(name: str) -> str:
    """One line of code that fits a model."""
    data = OWN_DATA.get(name) or DATA.get(registry.MODELS[name].task, "X")
    return f"lemmata.{name}().fit({data})"


def takes(name: str) -> list[str]:
    """What a model takes besides complete dense rows, by its tags and its methods."""
    cls = registry.model_class(name)
    tags = cls().__sklearn_tags__().input_tags
    arguments = inspect.signature(cls.fit).parameters
    found = {
        "weights": {"sample_weight", "weights"} & set(arguments), "gaps": tags.allow_nan,
        "sparse": tags.sparse, "batches": hasattr(cls, "partial_fit"),
    }  # fmt: skip
    return [word for word, is_so in found.items() if is_so]


def write_table() -> str:
    """The models of every task, each in one row."""
    return "\n".join(_rows()).strip()


def _rows() -> Iterator[str]:
    for task, names in registry.models_by_task().items():
        yield from ("", f"### {task[0].upper()}{task[1:]}", "")
        yield from ("| model | it is | code | cost | takes | peers |", "|---|---|---|---|---|---|")
        for name in names:
            one = registry.MODELS[name]
            peers = ", ".join(dict.fromkeys(path.partition(".")[0] for path in one.counterparts))
            code, cost = f"`{line_for(name)}`", cost_of(name).replace("|", r"\|")
            cells = [f"`{name}`", one.summary, code, cost, ", ".join(takes(name)), peers]
            yield f"| {' | '.join(cells)} |"
