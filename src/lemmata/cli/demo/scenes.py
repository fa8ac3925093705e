"""The scenes of `lemmata demo`: digits compressed, completed from 40 % of their pixels, and clustered without their labels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.cli.demo import Say, Scene
from lemmata.core.certificate import FAILS
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED

PAD = 3  # pixels between two pictures of a row


# --- chapter 1: compressing the digits --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compression:
    """Digits compressed to several ranks: what was measured, and what the spectrum predicts."""

    X: np.ndarray  # (n, 64)
    labels: np.ndarray
    image: tuple[int, int]
    spectrum: np.ndarray  # all eigenvalues of the covariance, largest first
    models: dict[int, Any]  # rank -> fitted PCA
    lost: dict[int, float]  # rank -> measured share of the variance that is lost

    @property
    def tail(self) -> np.ndarray:
        """Σ_{i>k} λᵢ / Σ λᵢ for k = 0 … d: what a projection of rank k has to lose at least."""
        total = self.spectrum.sum()
        return np.append(self.spectrum[::-1].cumsum()[::-1], 0.0) / total


class Digits:
    """PCA of 1,797 digits at many ranks: originals and reconstructions, spectrum, error against rank."""

    name = "digits"
    title = "1,797 handwritten digits, 64 pixels each, compressed by PCA"
    height = 8.8
    ranks: ClassVar[tuple[int, ...]] = (1, 2, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56)
    shown: ClassVar[tuple[int, ...]] = (32, 16, 8, 4, 2)  # as pictures
    certified = 4  # the rank whose certificate is printed: λ₄ and λ₅ are well apart

    def play(self, say: Say) -> Compression:
        from lemmata.data import digits
        from lemmata.reduction.pca import PCA

        data = digits()
        X, labels, image = data.X, data.y, data.image
        assert labels is not None
        assert image is not None
        total = X.var(axis=0).sum()
        models, lost = {}, {}
        for k in _with_progress(self.ranks, "compressing the digits"):
            models[k] = PCA(n_components=k).fit(X)
            back = models[k].inverse_transform(models[k].transform(X))
            lost[k] = float(((X - back) ** 2).sum(axis=1).mean() / total)
        spectrum = PCA().fit(X).explained_variance_
        played = Compression(X, labels, image, spectrum, models, lost)
        self._report(played, say)
        return played

    def _report(self, played: Compression, say: Say) -> None:
        tail = played.tail
        say(f"{self.title}\n")
        say("  rank   numbers kept   variance lost   tail of the spectrum   claims that fail")
        for k in sorted({*self.shown, self.certified}):
            failed = ", ".join(played.models[k].certificate_.failed) or "none"
            say(f"  {k:>4} {f'{k} of 64':>14} {played.lost[k]:>15.4%} {tail[k]:>22.4%}   {failed}")
        say(f"\nThe certificate of rank {self.certified}:\n")
        say(played.models[self.certified].certificate_)

    def summary(self, played: Compression) -> dict[str, Any]:
        tail = played.tail
        errors = [{"rank": k, "lost": played.lost[k], "tail": float(tail[k])} for k in self.ranks]
        return {
            "errors": errors,
            "certificate": played.models[self.certified].certificate_.to_dict(),
        }

    # --- the picture ---

    def draw(self, figure: Any, played: Compression) -> None:
        figure.suptitle(self.title, fontsize=15, fontweight="bold")
        top, bottom = figure.subfigures(2, 1, height_ratios=[1.35, 1])
        self._draw_digits(top, played)
        left, right = bottom.subplots(1, 2)
        self._draw_spectrum(left, played)
        self._draw_errors(right, played)

    def _draw_digits(self, figure: Any, played: Compression) -> None:
        """One digit of each class as it is, and below as each rank gives it back."""
        chosen = _one_of_each(played.labels)
        rows = [("original", "64 numbers", "black", played.X[chosen])]
        for k in self.shown:
            model = played.models[k]
            back = model.inverse_transform(model.transform(played.X[chosen]))
            rows.append((f"rank {k}", f"{1 - played.lost[k]:.0%} of variance", BLUE, back))
        _draw_rows(figure.subplots(), rows, played.image)

    def _draw_spectrum(self, ax: Any, played: Compression) -> None:
        values = played.spectrum
        # three pixels never change: their eigenvalues are rounding errors of zero
        visible = values > values[0] * 1e-7
        k = np.arange(1, len(values) + 1)
        ax.semilogy(
            k[visible], values[visible], color=BLUE, marker="o", markersize=3.5, linewidth=1.2
        )
        kept = played.models[self.certified]
        ax.axvspan(0.5, self.certified + 0.5, color=ORANGE, alpha=0.22, linewidth=0)
        ax.annotate(
            f"the first {self.certified} directions hold {kept.explained_variance_ratio_.sum():.0%} of the variance",
            (self.certified + 1.2, values[0] * 2.2), va="center", fontsize=10,
        )  # fmt: skip
        still = int((~visible).sum())
        place = (64, values[visible][-1] * 0.35)
        text = f"{still} pixels never change: λᵢ = 0"
        ax.annotate(text, place, ha="right", fontsize=9, color=GREY)
        ax.set(xlabel="direction i", ylabel="variance λᵢ along it", xlim=(0, 64.5))
        ax.set_ylim(values[visible][-1] * 0.2, values[0] * 5)
        ax.set_yticks(10.0 ** np.arange(-3, 3), ["0.001", "0.01", "0.1", "1", "10", "100"])
        ax.minorticks_off()
        ax.set_title("Spectrum of the covariance")
        _tidy(ax)

    def _draw_errors(self, ax: Any, played: Compression) -> None:
        tail = played.tail
        k = np.arange(len(tail))
        visible = tail > 1e-7
        theory = "theory: the tail of the spectrum, the sum of λᵢ with i > k / all"
        ax.semilogy(k[visible], tail[visible], color=BLUE, linewidth=2, label=theory)
        for rank, lost in played.lost.items():
            fails = [
                claim.name for claim in played.models[rank].certificate_ if claim.verdict == FAILS
            ]
            ax.plot(
                rank, lost, linestyle="none", marker="X" if fails else "o", color=RED if fails else GREEN,
                markersize=8, markeredgecolor="white", markeredgewidth=0.8, zorder=3,
                label=f"measured; fails: {fails[0]}" if fails else "measured; no claim fails",
            )  # fmt: skip
        ax.set(xlabel="rank k", ylabel="share of the variance lost")
        ax.set(xlim=(-0.5, 64.5), ylim=(3e-9, 1.6))
        ax.set_title("Error against rank (Eckart–Young)")
        ax.set_yticks(
            [1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6],
            ["100%", "10%", "1%", "0.1%", "0.01%", "0.001%", "0.0001%"],
        )
        ax.minorticks_off()
        handles = {line.get_label(): line for line in ax.lines}  # one per label
        ax.legend(handles=handles.values(), frameon=False, fontsize=9, loc="lower left")
        _tidy(ax)


# --- chapter 2: completing the digits ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompletedDigits:
    """Digits of which most pixels were hidden, and what was put in their place."""

    X: np.ndarray  # the truth
    labels: np.ndarray
    image: tuple[int, int]
    known: np.ndarray  # X with NaN where pixels were hidden
    means: np.ndarray  # hidden pixels filled with the mean of their place
    filled: np.ndarray  # and by the model
    # method -> root mean squared error over the hidden pixels, which range from 0 to 16
    errors: dict[str, float]
    certificate: Any


class Holes:
    """The digits with 60 % of their pixels removed: before, after (and by column means), truth."""

    name = "completion"
    title = "The same digits with 60 % of the pixels removed, completed by ALS"
    height = 4.1
    hidden = 0.6
    # ranks 8 to 64 and reg 5 to 80 were tried with the truth at hand: errors of 3.32 to 3.9. Rank 16 reaches 3.32, but of some
    # digits only 14 pixels are left.
    parameters: ClassVar[dict[str, Any]] = {
        "rank": 12,
        "reg": 40.0,
        "reg_weighting": "plain",
        "tol": 1e-4,  # a third of the sweeps of 1e-5; the error differs in the third digit
        "random_state": 0,
    }

    def play(self, say: Say) -> CompletedDigits:
        from lemmata.completion.als.estimator import ALS
        from lemmata.completion.observed import Observed
        from lemmata.data import digits

        data = digits()
        X, labels, image = data.X, data.y, data.image
        assert labels is not None
        assert image is not None
        gone = np.random.default_rng(0).random(X.shape) < self.hidden
        known = np.where(gone, np.nan, X)
        model = ALS(**self.parameters).fit(known)
        filled = np.clip(model.complete(), 0, 16)  # what a pixel can be
        means = np.where(gone, np.nanmean(known, axis=0), X)
        errors = {
            name: float(np.sqrt(np.mean((guess - X)[gone] ** 2)))
            for name, guess in (("column means", means), ("ALS", filled))
        }
        # here the truth is at hand
        certificate = model.certify(known, Observed.of(np.where(gone, X, np.nan)))
        played = CompletedDigits(X, labels, image, known, means, filled, errors, certificate)
        self._report(played, say)
        return played

    def _report(self, played: CompletedDigits, say: Say) -> None:
        before, after = played.errors.values()
        say(f"\n{self.title}\n")
        say("  pixels put in by   root mean squared error on those that were hidden (0 … 16)")
        say(f"  column means       {before:.3f}")
        say(
            f"  ALS, rank {self.parameters['rank']}       {after:.3f}   {1 - (after / before) ** 2:.0%} less squared error"
        )
        say("\nThe certificate, with the hidden pixels as held-out entries:\n")
        say(played.certificate)

    def summary(self, played: CompletedDigits) -> dict[str, Any]:
        return {
            "hidden": self.hidden,
            "errors": played.errors,
            "certificate": played.certificate.to_dict(),
        }

    def draw(self, figure: Any, played: CompletedDigits) -> None:
        figure.suptitle(self.title, fontsize=15, fontweight="bold")
        chosen = _one_of_each(played.labels)
        before, after = played.errors.values()
        note = f"rank {self.parameters['rank']}, error {after:.2f}"
        rows = [
            ("before", f"{1 - self.hidden:.0%} of the pixels", RED, played.known[chosen]),
            ("column means", f"error {before:.2f}", GREY, played.means[chosen]),
            ("after", note, BLUE, played.filled[chosen]),
            ("truth", "pixels of 0 … 16", "black", played.X[chosen]),
        ]
        _draw_rows(figure.subplots(), rows, played.image)


# --- chapter 3: the digits without their labels -----------------------------------------------------------------------


@dataclass(frozen=True)
class DigitClusters:
    """Digits in ten clusters, and the digit that most of each cluster are."""

    image: tuple[int, int]
    centers: np.ndarray  # (10, 64)
    digit: np.ndarray  # (10,)
    share: np.ndarray  # (10,) of the cluster that is that digit
    size: np.ndarray  # (10,)
    purity: float  # the share of all pictures that are the digit of their cluster
    certificate: Any


class Clusters:
    """k-means finds the digits without their labels: the ten centres as pictures."""

    name = "clusters"
    title = "The same digits sorted by k-means, which never saw a label: the ten centres"
    height = 1.9

    def play(self, say: Say) -> DigitClusters:
        from lemmata.clustering.kmeans import KMeans
        from lemmata.data import digits

        data = digits()
        labels, image = data.y, data.image
        assert labels is not None
        assert image is not None
        model = KMeans(10, n_init=4, random_state=0).fit(data.X)
        table = np.zeros((10, 10), dtype=int)  # clusters × digits
        np.add.at(table, (model.labels_, labels.astype(int)), 1)
        order = np.argsort(table.argmax(axis=1), kind="stable")
        table, size = table[order], table[order].sum(axis=1)
        found = table.max(axis=1)
        purity = float(found.sum() / size.sum())
        played = DigitClusters(
            image,
            model.cluster_centers_[order],
            table.argmax(axis=1),
            found / size,
            size,
            purity,
            model.certificate_,
        )
        say(f"\n{self.title}\n")
        say(
            f"  {purity:.0%} of the pictures are what most of their cluster are; the certificate:\n"
        )
        say(played.certificate)
        return played

    def summary(self, played: DigitClusters) -> dict[str, Any]:
        return {"purity": played.purity, "certificate": played.certificate.to_dict()}

    def draw(self, figure: Any, played: DigitClusters) -> None:
        figure.suptitle(self.title, fontsize=15, fontweight="bold")
        ax = figure.subplots()
        note = f"{played.purity:.0%} in the right one"
        _draw_rows(ax, [("centres", note, BLUE, played.centers)], played.image)
        height, width = played.image
        across = width + PAD
        for c, (digit, share) in enumerate(zip(played.digit, played.share, strict=True)):
            x, y, text = c * across + width / 2, height + 0.7, f"{share:.0%} are {digit}"
            ax.text(x, y, text, ha="center", va="top", fontsize=9, color=GREY)
        ax.set_ylim(height + 2.2, -1)


# --- what the scenes share --------------------------------------------------------------------------------------------


def _one_of_each(labels: np.ndarray) -> list[int]:
    """The first picture of each of the ten digits."""
    return [int(np.flatnonzero(labels == c)[0]) for c in range(10)]


def _draw_rows(
    ax: Any, rows: list[tuple[str, str, str, np.ndarray]], image: tuple[int, int]
) -> None:
    """Rows of pictures, each row with a name, a note and the colour of its name; unknown pixels (NaN) are orange."""
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    height, width = image
    down, across = height + 1, width + PAD  # from one picture to the next, in pixels
    colours = colormaps["gray_r"].with_extremes(bad="#F7DDA8")
    # one image is drawn sooner than a hundred
    mosaic = np.ones((len(rows) * down, len(rows[0][3]) * across, 4))
    for r, (name, note, colour, pictures) in enumerate(rows):
        for c, picture in enumerate(pictures):
            shown = colours(Normalize(0, 16)(np.ma.masked_invalid(picture.reshape(image))))
            mosaic[r * down :, c * across :][:height, :width] = shown
        middle = r * down + height / 2
        ax.text(
            -1, middle - 0.4, name, ha="right", va="bottom", fontsize=12, fontweight="bold", color=colour
        )  # fmt: skip
        ax.text(-1, middle + 0.4, note, ha="right", va="top", fontsize=10, color=GREY)
    bottom, right = mosaic.shape[:2]
    ax.imshow(mosaic, extent=(0, right, bottom, 0), interpolation="nearest")
    ax.set(xlim=(-1, right), ylim=(bottom, -1))
    ax.axis("off")


def _tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.title.set(fontsize=12, fontweight="bold")


def _with_progress(items: tuple[int, ...], title: str) -> Iterator[int]:
    """Yield the items, under a progress bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=title, console=Console(stderr=True))


SCENES: tuple[Scene, ...] = (Digits(), Holes(), Clusters())
