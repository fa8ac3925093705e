"""CLIP: an image and its caption point the same way, and those of others do not (ML "CLIP"; Radford et al. 2021).

    minimise  ½ (CE of the captions for each image + CE of the images for each caption)  of  e^t cos(u_i, v_j),
    u = f₂(f₁(x)) of an image,  v of a caption: the mean of its words' vectors, then two layers;  t = ln 1/τ is learned

The order of words does not count, and captions of the same words are no negatives of each other. A class is then a caption,
so that naming it is enough (`classifier`): zero labels. The notes have "a photo of a [class]" under few-shot learning; few-shot
is a probe on `transform(X)`.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> X, names = (X / 16).reshape(-1, 1, 8, 8).astype("float32"), "zero one two three four five six seven eight nine".split()
    >>> captions = [f"{'a scan of' if i % 2 else 'somebody wrote'} {names[k]}" for i, k in enumerate(y)]
    >>> model = CLIP(regions=2, net_options={"widths": (16, 32)}, batch_size=100, max_iter=5, random_state=0)
    >>> digits = model.fit(X[:1500], captions[:1500]).classifier(names, template="a scan of {}")
    >>> float(np.mean(digits.predict(X[1500:]) == np.array(names)[y[1500:]])) > 0.7
    True
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.selfsup.captions import CLIP_CLAIMS, ZERO_SHOT_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.certify import Request
from lemmata.nets.estimators.neural import Neural, rows_to_state
from lemmata.selfsup.base import SelfSupervised
from lemmata.text.words import Tokenizer

Array = np.ndarray
TEMPLATE = "a photo of a {}"
SHOWN = 5  # unknown words that a message names


class CLIP(SelfSupervised):
    """Encoders of images and of captions into one space.

    Minimises the cross-entropy of which caption of a batch belongs to an image, and which image to a caption, by cosines
    over a learned temperature.

    Attributes
    ----------
    encoder_, module_ : Module
    n_outputs_, loss_ : numbers
    stated_batch_, test_rows_ : arrays
        As in `SimCLR`; module_ has both encoders.
    vocabulary_ : array of str
        The words of the captions, sorted.
    temperature_ : float
        τ, as learned.
    n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    claims, more_claims = CLIP_CLAIMS, ()
    views = None  # no parameter: a caption is the other view
    stored: ClassVar[Mapping[str, str | type]] = {
        **Neural.stored,
        "loss_ n_outputs_ stated_batch_": "audited",
        "test_rows_?": "t int >=0",
        "vocabulary_": "w text",
        "temperature_": "audited",
    }

    # --- fitting ---

    def fit(self, images, captions):  # type: ignore[override]
        """Learn from images and a caption of each, and check the claims.

        Parameters
        ----------
        images : as X of SimCLR: images, sounds, or a table
        captions : a str for each; several captions of an image are several rows
        """
        return Neural.fit(self, images, captions)

    def fit_transform(self, images, captions):  # type: ignore[override]
        """Fit to images and captions, and give the features of the images."""
        return self.fit(images, captions).transform(images)

    def _validate_pair(self, X, y, sample_weight=None, reset: bool = True) -> Blocks:
        data = self._validate_rows(X, sample_weight, reset=reset)
        if y is None:
            raise ValueError("captions are missing: pass one str for each image.")
        words = split_captions(y)
        if len(words) != data.shape[0]:
            raise ValueError(f"{len(words):,} captions for {data.shape[0]:,} images; pass one for each.")  # fmt: skip
        if reset:
            self.vocabulary_ = np.array(sorted({word for one in words for word in one}), dtype=object)  # fmt: skip
        return data.with_targets(self._tokens(words))

    def _tokens(self, captions: Sequence[list[str]]) -> Array:
        """(n, longest): numbers of known words from 1 on, ascending, after zeros; ValueError for a caption without any."""
        known = {word: at + 1 for at, word in enumerate(self.vocabulary_)}
        numbers = [sorted(known[word] for word in one if word in known) for one in captions]
        unknown = list(dict.fromkeys(word for one in captions for word in one if word not in known))
        if empty := next((" ".join(captions[i]) for i, one in enumerate(numbers) if not one), None):
            raise ValueError(f"{empty!r} has no word that the captions of the fit had; see vocabulary_.")  # fmt: skip
        if unknown:
            names = ", ".join(map(repr, unknown[:SHOWN])) + ("…" if len(unknown) > SHOWN else "")
            warnings.warn(f"words that the captions of the fit did not have are left out: {names}.", stacklevel=4)  # fmt: skip
        longest = max(map(len, numbers))
        return np.array([[0] * (longest - len(one)) + one for one in numbers], dtype=np.int64)

    def _loss(self) -> Any:
        from lemmata.selfsup.objectives import Match

        return Match()

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), "n_words": len(self.vocabulary_)}

    def _measure(self, x: Array, size: int, data: Blocks) -> dict[str, Any]:
        from lemmata.selfsup.measures import caption_loss

        loss = caption_loss(self.module_, x, np.asarray(rows_to_state(data)[1]), size)
        return {"loss_": loss, "temperature_": float(np.exp(-self.module_.scale().item()))}

    def certify(
        self, X, y=None, sample_weight=None, *, X_test=None, y_test=None, seconds=None
    ) -> Certificate:
        """Check every claim about this fit on images X with captions y, and on pairs that it was not fitted to.

        X_test, y_test : images and captions drawn like X and y; without them, those that `fit` kept
        """
        check_is_fitted(self)
        if (X_test is None) != (y_test is None):
            raise ValueError("pass X_test and y_test together: new images and their captions.")
        return super().certify(X, y, X_test=X_test, y_test=y_test, seconds=seconds)

    # --- using ---

    def embed(self, images: Any = None, texts: Any = None) -> Array:
        """(n, projection): the directions of images, or of texts."""
        check_is_fitted(self)
        if (images is None) == (texts is None):
            raise ValueError("pass images or texts: embed(images=X), embed(texts=[…]).")
        if texts is None:
            found = self.project(images)
        else:
            found = read(self.module_, self._tokens(split_captions(texts)))
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)

    def retrieve(self, queries: Any, among: Any, k: int = 5) -> Array:
        """(n, k): numbers of the nearest among others, nearest first. Both are images, or lists of texts."""
        of = lambda one: self.embed(**{"texts" if _are_texts(one) else "images": one})  # noqa: E731
        u, v = of(queries), of(among)
        if not 1 <= k <= len(v):
            raise ValueError(f"k={k} of {len(v)}; pass a number from 1 to {len(v)}.")
        return np.argsort(-(u @ v.T), axis=1, kind="stable")[:, :k]

    def classifier(self, names: Sequence[str], template: str = TEMPLATE) -> ZeroShot:
        """A classifier whose classes are these words, put into the template; nobody labelled anything."""
        check_is_fitted(self)
        names = [names] if isinstance(names, str) else list(names)
        if (places := template.count("{}")) != 1:
            raise ValueError(f"template={template!r} has {places} places for a name; pass one {{}}.")  # fmt: skip
        if len(set(names)) != len(names) or len(names) < 2:
            raise ValueError(f"names={names}; pass two different ones or more.")
        known = set(self.vocabulary_)
        for name, words in zip(names, split_captions(names), strict=True):
            if unknown := [word for word in words if word not in known]:
                raise ValueError(f"no caption of the fit had {unknown[0]!r}, of the name {name!r}.")
        captions = split_captions([template.format(name) for name in names])
        return ZeroShot(self, np.array(names), self._tokens(captions))


@dataclass(frozen=True)
class ZeroShot:
    """A classifier by captions: the class whose caption is nearest.

    classes_ : (K,) names
    tokens : (K, longest), the words of their captions
    """

    model: CLIP
    classes_: Array
    tokens: Array

    @cached_property
    def directions(self) -> Array:
        v = read(self.model.module_, self.tokens)
        return v / np.linalg.norm(v, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> Array:
        """(n, K): the softmax of cosines over τ."""
        s = self.model.embed(images=X) @ self.directions.T / self.model.temperature_
        p = np.exp(s - s.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Array:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X: Any, y: Any) -> float:
        """The share of names that are right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def certify(self, X: Any, y: Any, seconds: float | None = None) -> Certificate:
        """Check that it is right more often than any constant answer, on images with names y that nobody trained on."""
        data, names = self.model._validate_rows(X, reset=False), np.asarray(y)
        places = {str(name): at for at, name in enumerate(self.classes_)}
        if names.shape != (data.shape[0],) or not set(map(str, names)) <= set(places):
            found = f"y has shape {names.shape} for {data.shape[0]} images"
            raise ValueError(f"{found}; pass one of {', '.join(places)} for each.")
        facts = {"module_": self.model.module_, "tokens": self.tokens, "input_shape_": self.model.input_shape_}  # fmt: skip
        fit = Fit(self, data, np.array([places[str(name)] for name in names]), attributes=facts)
        title = f"ZeroShot  {len(places)} classes, {data.shape[0]:,} images"
        work = lambda fit: 10.0 * self.model.work(fit)  # noqa: E731
        return Request(seconds=seconds).check("ZeroShot", ZERO_SHOT_CLAIMS, fit, title, work)


def read(module: Any, tokens: Array) -> Array:
    """Directions of captions, in float64."""
    import torch

    device = next(module.parameters()).device
    with torch.no_grad():
        return module.eval().read(torch.from_numpy(tokens).to(device)).double().cpu().numpy()


def split_captions(captions: Any) -> list[list[str]]:
    """The words of each caption."""
    captions = [captions] if isinstance(captions, str) else list(captions)
    wrong = next((i for i, one in enumerate(captions) if not isinstance(one, str)), None)
    if wrong is not None:
        raise TypeError(f"caption {wrong} is a {type(captions[wrong]).__name__}; pass a str for each image.")  # fmt: skip
    words = [Tokenizer()(one) for one in captions]
    if (at := next((i for i, one in enumerate(words) if not one), None)) is not None:
        raise ValueError(f"caption {at} is {captions[at]!r}, without a word of two letters: leave that image out.")  # fmt: skip
    return words


def _are_texts(values: Any) -> bool:
    return isinstance(values, str) or (len(values) > 0 and isinstance(values[0], str))
