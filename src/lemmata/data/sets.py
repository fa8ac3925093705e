"""Loaders of the data sets that are files: one short function per set, over one table of what is where.

    >>> fashion_mnist("test")                                # doctest: +SKIP
    fashion-mnist: 10,000 × 784 float32, 10 classes
      Grey 28 × 28 pictures of clothing; pixels scaled to 0–1.
      ...

Nothing of these sets is part of lemmata; see `locate` for where they are looked for. `part` names a part of the set as its
authors split it; "all" puts train before test.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.data.dataset import Dataset, Ratings
from lemmata.data.locate import DataDamaged, File, Source

_ZALANDO = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_WIKITEXT = (
    "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/"
)
_SHAKESPEARE = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)

# fmt: off
SOURCES: dict[str, Source] = {source.folder: source for source in (
    Source("fashion-mnist", "Grey 28 × 28 pictures of clothing; pixels scaled to 0–1.",
           "Zalando Research, github.com/zalandoresearch/fashion-mnist", "MIT", (
        File("train-images-idx3-ubyte.gz", 47_040_016,
             "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888", _ZALANDO + "train-images-idx3-ubyte.gz"),
        File("train-labels-idx1-ubyte.gz", 60_008,
             "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9", _ZALANDO + "train-labels-idx1-ubyte.gz"),
        File("t10k-images-idx3-ubyte.gz", 7_840_016,
             "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b", _ZALANDO + "t10k-images-idx3-ubyte.gz"),
        File("t10k-labels-idx1-ubyte.gz", 10_008,
             "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34", _ZALANDO + "t10k-labels-idx1-ubyte.gz"),
    )),
    Source("olivetti-faces", "Ten photographs each of 40 faces, 64 × 64 grey pixels scaled to 0–1.",
           "AT&T Laboratories Cambridge; cropped by Sam Roweis",
           "credit AT&T Laboratories Cambridge; no formal licence; do not try to identify the people", (
        File("faces.npz", 1_412_949, "1bc306c8729a0170c186c82adbabe9ca9b4f3a5bd8a01f37278c167a9f8e6404"),
    )),
    Source("newsgroups-20", "Usenet posts of 20 groups, lower case, letters only, split by date.",
           "20 Newsgroups (Ken Lang), preprocessed by Ana Cardoso Cachopo", "none known; for research", (
        File("train.tsv.gz", 16_682_900, "88a1869518fc705d45ab6bfaf087bb160fee92173e66d8b8d16724b195d6dd0d"),
        File("test.tsv.gz", 10_808_732, "b2d8a326ca4a97945c5b77bfda3caaa560ce67a47e10aac57244decc8efa86f3"),
    )),
    Source("ap-corpus", "Word counts of Associated Press articles, 1988 to 1990: no texts, no labels.",
           "David Blei's lda-c, from TREC", "counts passed on freely; no formal licence", (
        File("ap.dat.gz", 1_926_195, "ef1003dad74df696cdd3bab85e7c1d20a3eb1494a9e847e899224894d5ccf6d9"),
        File("vocab.txt.gz", 85_532, "fbf0d0f836cb2b0360bd3cae0f71c2f34b140b1dd8dd0d0bdb618a64704337f6"),
    )),
    Source("imdb-reviews", "Film reviews, positive (1) or negative (0); HTML line breaks are kept.",
           "Maas et al. (2011), Stanford", "cite the authors; the reviews belong to their writers; for research", (
        File("train.tsv.gz", 33_261_848, "eecc3986950e7d91d6672490ba9622f4a808c68d2d2dd81c3aa07c26d4dfcf62"),
        File("test.tsv.gz", 32_479_912, "a26c71114afcba4d1bfdb480ab3858f95c24964872a27cf4dd68b660d9aaa806"),
    )),
    Source("rt-polarity", "Sentences of film reviews, positive (1) or negative (0), lower case, tokens apart.",
           "Bo Pang and Lillian Lee (2005)", "CC BY 4.0", (
        File("sentences.tsv.gz", 1_249_468, "cc16757c2e47caa56355eae934a0bdccf33c09de904625b61871ce7fd453315c"),
    )),
    Source("trec-questions", "Questions by the kind of their answer, tokens apart.",
           "Xin Li and Dan Roth (2002), UIUC", "none stated; cite the authors; for research", (
        File("train.tsv.gz", 335_859, "46618d43855267c12ffa8a47f3f6874ee026f15b878d09f56a4bf42719efc3bc"),
        File("test.tsv.gz", 23_354, "858be2ad68a039b85e5638b834009236c55ce5e7851e31d9e61be08030dc000e"),
    )),
    Source("lee-news", "Short news items of the Australian Broadcasting Corporation.",
           "Lee, Pincombe and Welsh (2005)", "no formal licence; passed on with gensim", (
        File("lee_background.cor.gz", 360_082, "5d78d6dafd953bbf65797bef09a9ffb9ec430583381be705f8fd460000f370fb"),
        File("lee.cor.gz", 24_659, "b524960fec6227b14427494ddb6f31106ecdea5d82f31a34a8504ad4a741c003"),
    )),
    Source("word-evaluation", "Analogy questions and judgements of how similar two words are.",
           "word2vec (Google); Finkelstein et al.; Hill, Reichart and Korhonen",
           "Apache 2.0; CC BY 4.0; free for research, cite", (
        File("questions-words.txt.gz", 603_955, "8c29b3332afc46f3fb8be04cb5297bf96f39aa7131272dff57869b4485b22a36"),
        File("wordsim353.tsv", 7_186, "f92a022fc2537793a15bc3a8c162ebcd74990e033a228bb6388cb71e4c0b1e1d"),
        File("simlex999.txt", 18_126, "d5e0501971478a511430ee880bd0121e94ac701ba86d90544d83e6d2ba3db05d"),
    )),
    Source("a9a", "The Adult census data as 123 binary features; does a person earn over 50,000 dollars (+1) or not (−1)?",
           "LIBSVM data page (John Platt), from UCI Adult", "none stated; UCI states CC BY 4.0", (
        File("a9a.gz", 2_327_314, "7ba53cccb27e2e525f0fb173e1f446d49856e3fb007eb43be4ec6d0f5b3335ca"),
        File("a9a.t.gz", 1_164_628, "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
    )),
    Source("california-housing", "Census block groups of California, 1990; y is the median house value in dollars.",
           "Pace and Barry (1997), StatLib", "no restriction stated", (
        File("cal_housing.csv.gz", 2_071_604, "534365b6c3c9b07c2b7d88e0ff9f1b41725d8b799748f5c0b80e1067f51c8ab3"),
    )),
    Source("spambase", "E-mails by the frequencies of words, characters and capitals; y is 1 for spam.",
           "Hopkins, Reeber, Forman and Suermondt (HP Labs), UCI", "UCI states CC BY 4.0", (
        File("spambase.csv.gz", 698_341, "73152697481767e4712e97663f5bfac69e5bc65585ba2e82510f14157bca0d40"),
    )),
    Source("adult", "People of the census of 1994; y is 1 for an income above 50,000 dollars.",
           "Kohavi and Becker, UCI", "UCI states CC BY 4.0", (
        File("train.csv.gz", 3_518_606, "f2c62076f19504d99a38b22badf445a7f42530ade6b827acf78dd143fbce38bb"),
        File("test.csv.gz", 1_759_072, "f6b1801c5d231515ea5ff04d4444997bacd57e04876e94710cb9b9bd5549c033"),
    )),
    Source("compas", "Defendants in Broward County, Florida; y is 1 for a new offence within two years.",
           "ProPublica, github.com/propublica/compas-analysis (2016)", "none known; public records for re-analysis", (
        File("compas-scores-two-years.csv.gz", 2_076_659, "a5e5c34bfd2d1f065bb12a44c0323421baf74b98b97d585915a0c2e1513ecaba"),
    )),
    Source("movielens-small", "Ratings of films in half stars, 0.5–5, from 1996 to 2018 (ml-latest-small).",
           "GroupLens Research, University of Minnesota",
           "research use with acknowledgement, not commercial; may be passed on under the same terms", (
        File("ratings.csv.gz", 2_382_886, "80da8b3393dae325bbba5a31f291a6ba55d8d4f4396de3c456f2c1635b1b70e8"),
        File("movies.csv.gz", 484_688, "c47b783f23eb304413307e1bb05335e427737da20ec8d3c0e96335567dd5f3dc"),
    )),
    Source("movielens-1m", "A million ratings of films in whole stars, 1–5, from the year 2000; without their times.",
           "GroupLens Research, University of Minnesota", "research use with acknowledgement; must not be passed on", (
        File("ratings.npz", 1_546_846, "65ed4cb9f6829c63a4e0109dabfd6889314269cf311d4a92cf20c7fa02509252"),
        File("movies.csv.gz", 165_611, "55ce9d4128d8ebecbc8e4a3bf7f05df700d6f1afe30451ff3e50007206af8f00"),
    )),
    Source("movietweetings", "Ratings of films from 0 to 10, from public posts of 2013, with their times.",
           "Simon Dooms, Ghent University, github.com/sidooms/MovieTweetings (the first 100,000)", "MIT", (
        File("ratings.csv.gz", 2_645_128, "2e15d865ec01b5afa9942163f1253ce837c2953eccdfc60770d8e9d3cef14222"),
        File("movies.csv.gz", 521_520, "8f4c27309bac32370501090a0f29c591feddf7f4df5e6b8eda98eeef809e22f5"),
    )),
    Source("filmtrust", "Ratings of films from 0.5 to 4 in half steps; the films have numbers, no titles.",
           "Guo, Zhang and Yorke-Smith (2013), from the FilmTrust site", "none stated; for research", (
        File("ratings.csv.gz", 376_462, "3508a050ec5ccfea70e0023c8ec0cf38fee020c4dea1c25f7adb291151fc1d46"),
    )),
    Source("spoken-digits", "Spoken English digits, 8 kHz mono, of six speakers; a row is a recording, padded with silence.",
           "Jakobovski/free-spoken-digit-dataset (takes 0 to 4)", "CC BY-SA 4.0", (
        File("digits.npz", 1_521_824, "3f032e2f91bc819f57cff634c78693726de48fa56d7202191632c74ac8198e45"),
    )),
    Source("time-series", "Well-known series: sunspots, CO2, the Nile, passengers, temperatures, US macroeconomics.",
           "data sets of statsmodels; github.com/jbrownlee/Datasets",
           "public domain, as statsmodels marks its own; public figures, no terms stated", (
        File("airline-passengers.csv", 2_036, "d6159c6f8243ed52f6dad223958e350c11f2bd317d9116bf663c7e7682607ac2"),
        File("co2-weekly.csv", 33_974, "16695fa2786e53414e5a6b54767a3fdf5de99cfbc68617f69d1362d92776a92f"),
        File("daily-min-temperatures.csv", 64_271, "178c85707c148319c4ca35069d044c799ff22e8d71b7a2c08922216756d18961"),
        File("elnino.csv", 5_508, "b647be00e0fd264be9764e317e6b963f35030014ecca2b21b204521716e463ad"),
        File("macrodata.csv", 17_829, "d93c0d3a7a77ef83c3af14e46032bb1d02ae3a512b22ab94159a8ca226fcf708"),
        File("monthly-sunspots.csv", 42_219, "4b91dd8e13bdf6a95c3034c71ceca0152269986c6a91706c6eaf50c1d50081c8"),
        File("nile.csv", 942, "88e97bea7249e5832a85e41aec6ce4b8f7b1b14aae930c8363da7f193286b598"),
        File("sunspots-yearly.csv", 2_944, "f67889b1d9002cd5227f0e0ef54e35b419cdd85a31279adef6f73fb41e5c0a9b"),
    )),
    Source("tiny-shakespeare", "40,000 lines of Shakespeare's plays as one running text.",
           "github.com/karpathy/char-rnn", "text in the public domain", (
        File("input.txt.gz", 1_115_394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", _SHAKESPEARE),
    )),
    Source("wikitext-2", "Good Wikipedia articles as one running text, tokens separated by spaces, rare words as <unk>. "
           "The order of the training articles is not the original one.",
           "Merity et al. (2016), Salesforce", "CC BY-SA 3.0", (
        File("train.txt.gz", 10_797_148, "728c77e87e176af4730f9a80fc6008bcaff421a7202c1c048877c0eec3685f89"),
        File("valid.txt.gz", 1_121_681,
             "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", _WIKITEXT + "valid.txt"),
        File("test.txt.gz", 1_256_449,
             "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", _WIKITEXT + "test.txt"),
    )),
)}
# fmt: on

CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def _dataset(folder: str, **content: Any) -> Dataset:
    source = SOURCES[folder]
    return Dataset(
        name=folder,
        description=source.description,
        source=source.origin,
        terms=source.terms,
        **content,
    )


def _parts(part: str, known: Iterable[str], whole: bool = True) -> list[str]:
    """The parts that `part` names: itself, or all of them for "all"."""
    known = list(known)
    if whole and part == "all":
        return known
    if part not in known:
        accepted = ", ".join(map(repr, [*known, "all"] if whole else known))
        raise ValueError(f"part={part!r}: there is no such part; pass one of {accepted}.")
    return [part]


# --- images -----------------------------------------------------------------------------------------------------------


def fashion_mnist(part: str = "all", *, download: bool = False) -> Dataset:
    """70,000 grey pictures of clothing, 28 × 28, as float32 rows in 0–1. part: "train" (60,000), "test" or "all"."""
    stems = {"train": "train", "test": "t10k"}
    find, parts = SOURCES["fashion-mnist"].find, _parts(part, stems)
    images = [_idx(find(f"{stems[p]}-images-idx3-ubyte.gz", download=download)) for p in parts]
    labels = [_idx(find(f"{stems[p]}-labels-idx1-ubyte.gz", download=download)) for p in parts]
    X = np.empty((sum(map(len, images)), 28 * 28), dtype=np.float32)
    np.concatenate([block.reshape(len(block), -1) for block in images], out=X)
    X /= 255
    y = np.concatenate(labels).astype(np.int64)
    return _dataset("fashion-mnist", X=X, y=y, names=CLOTHES, image=(28, 28))


def _idx(path: Path) -> np.ndarray:
    """An array in the idx format: two zeros, type 8 (bytes), the number of axes; their lengths as big-endian ints; bytes."""
    with gzip.open(path) as file:
        raw = file.read()
    axes = raw[3]
    shape = np.frombuffer(raw, dtype=">i4", count=axes, offset=4)
    if raw[:3] != b"\0\0\x08" or len(raw) != 4 + 4 * axes + shape.prod():
        raise DataDamaged(f"{path} is not an idx file of bytes.")
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def olivetti_faces() -> Dataset:
    """400 photographs of 40 people, 64 × 64 grey pixels, as float32 rows in 0–1."""
    with np.load(SOURCES["olivetti-faces"].find("faces.npz"), allow_pickle=False) as arrays:
        X, y = (
            arrays["images"].reshape(400, -1).astype(np.float32) / 255,
            arrays["target"].astype(np.int64),
        )
    return _dataset(
        "olivetti-faces", X=X, y=y, names=tuple(f"person {k}" for k in range(40)), image=(64, 64)
    )


# --- sounds -----------------------------------------------------------------------------------------------------------


def spoken_digits(part: str = "all", *, samples: int = 8000) -> Dataset:
    """300 recordings of the digits 0 to 9, as float32 rows in −1–1. part: "train" (takes 0 to 3), "test" (take 4) or "all".

    samples : the length of a row at 8 kHz; shorter recordings end in silence, longer ones are cut. All but two last less
        than a second.
    """
    if samples < 1:
        raise ValueError(f"samples={samples}: pass a length of 1 or more.")
    takes = {"train": range(4), "test": (4,)}
    wanted = [take for p in _parts(part, takes) for take in takes[p]]
    with np.load(SOURCES["spoken-digits"].find("digits.npz"), allow_pickle=False) as arrays:
        sound, offset, digit, take = (arrays[k] for k in ("waveform", "offset", "digit", "take"))
    chosen = np.concatenate([np.flatnonzero(take == t) for t in wanted])
    X = np.zeros((len(chosen), samples), dtype=np.float32)
    for row, i in zip(X, chosen, strict=True):
        heard = sound[offset[i] : offset[i + 1]][:samples]
        row[: len(heard)] = heard
    X /= 2**15
    y = digit[chosen].astype(np.int64)
    return _dataset("spoken-digits", X=X, y=y, names=tuple(str(k) for k in range(10)))


# --- series -----------------------------------------------------------------------------------------------------------


def time_series(name: str) -> Dataset:
    """A series as rows of float64 in order of time, a column for each of several; NaN where a value is missing.

    name : "sunspots-yearly" (309 values from 1700 on), "monthly-sunspots" (2,820 from 1749), "airline-passengers" (144 months
        from 1949), "daily-min-temperatures" (3,650 days from 1981), "co2-weekly" (2,284 from 1958, 59 missing), "nile" (100
        years from 1871), "macrodata" (203 quarters from 1959, 12 columns), "elnino" (732 months from 1950)
    """
    source = SOURCES["time-series"]
    known = [file.name.removesuffix(".csv") for file in source.files]
    if name not in known:
        raise ValueError(f"name={name!r}: there is no such series; pass one of {', '.join(known)}.")
    with source.find(f"{name}.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    times = 2 if name == "macrodata" else 1  # columns that say when
    features = tuple(head[times:])
    X = np.array([[float(value or "nan") for value in row[times:]] for row in rows])
    if name == "elnino":  # a row holds the months of a year
        X, features = X.reshape(-1, 1), ("temperature",)
    return _dataset("time-series", X=X, features=features)


# --- tables -----------------------------------------------------------------------------------------------------------


def a9a(part: str = "all") -> Dataset:
    """48,842 people in 123 binary features, as CSR; y is ±1. part: "train" (32,561), "test" or "all"."""
    import scipy.sparse as sp
    from sklearn.datasets import load_svmlight_file

    files = {"train": "a9a.gz", "test": "a9a.t.gz"}
    paths = [SOURCES["a9a"].find(files[p]) for p in _parts(part, files)]
    loaded = [
        load_svmlight_file(path, n_features=123, zero_based=False) for path in map(str, paths)
    ]
    X = sp.csr_array(sp.vstack([X for X, _ in loaded], format="csr"))
    return _dataset("a9a", X=X, y=np.concatenate([y for _, y in loaded]).astype(np.int64))


def california_housing() -> Dataset:
    """20,640 census block groups, the eight columns of the file as float64; y is the median house value in dollars."""
    path = SOURCES["california-housing"].find("cal_housing.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        features = tuple(file.readline().strip().split(","))
        table = np.loadtxt(file, delimiter=",")
    return _dataset(
        "california-housing", X=table[:, :-1].copy(), y=table[:, -1].copy(), features=features[:-1]
    )


def spambase() -> Dataset:
    """4,601 e-mails in 57 features of very different scales (per cent, and lengths up to 15,841); y is 1 for spam."""
    with gzip.open(SOURCES["spambase"].find("spambase.csv.gz"), "rt", encoding="utf-8") as file:
        table = np.loadtxt(file, delimiter=",")
    return _dataset("spambase", X=table[:, :-1].copy(), y=table[:, -1].astype(np.int64))


# --- ratings ----------------------------------------------------------------------------------------------------------


def movielens_small() -> Ratings:
    """100,836 ratings of 9,724 films by 610 users, in half stars, with their times."""
    user, film, rating, seconds = _columns("movielens-small")
    return _ratings("movielens-small", user, film, rating, seconds, _films("movielens-small"))


def movielens_1m() -> Ratings:
    """1,000,209 ratings of 3,706 films by 6,040 users, in whole stars."""
    with np.load(SOURCES["movielens-1m"].find("ratings.npz"), allow_pickle=False) as arrays:
        user, film, rating = arrays["user"], arrays["movie"], arrays["rating"]
    return _ratings("movielens-1m", user, film, rating, None, _films("movielens-1m"))


def movietweetings() -> Ratings:
    """100,000 ratings of 10,506 films by 16,554 users, from 0 to 10, with their times."""
    user, film, rating, seconds = _columns("movietweetings")
    return _ratings("movietweetings", user, film, rating, seconds, _films("movietweetings"))


def filmtrust() -> Ratings:
    """35,494 ratings of 2,071 films by 1,508 users, from 0.5 to 4. Three pairs occur twice; the later rating counts."""
    user, film, rating = _columns("filmtrust")
    pairs = np.column_stack([user, film])[::-1]  # `unique` keeps the first it meets
    last = len(pairs) - 1 - np.unique(pairs, axis=0, return_index=True)[1]
    last.sort()
    titles = {int(number): (f"film {number:.0f}", ()) for number in np.unique(film)}
    return _ratings("filmtrust", user[last], film[last], rating[last], None, titles)


def _columns(folder: str) -> np.ndarray:
    """The columns of ratings.csv.gz. float64 holds ids and Unix seconds exactly."""
    with gzip.open(SOURCES[folder].find("ratings.csv.gz"), "rt", encoding="utf-8") as file:
        return np.loadtxt(file, delimiter=",", skiprows=1).T


def _films(folder: str) -> dict[int, tuple[str, tuple[str, ...]]]:
    """Title and genres of each film by its number."""
    path = SOURCES[folder].find("movies.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)  # number, title, genres
        return {
            int(number): (title, tuple(filter(None, genres.split("|"))))
            for number, title, genres in rows
        }


def _ratings(folder: str, user, film, rating, seconds, films) -> Ratings:
    source = SOURCES[folder]
    user_ids, user = np.unique(user.astype(np.int64), return_inverse=True)
    item_ids, item = np.unique(film.astype(np.int64), return_inverse=True)
    titles, genres = zip(*(films[int(identity)] for identity in item_ids), strict=True)
    return Ratings(
        name=folder,
        description=source.description,
        source=source.origin,
        terms=source.terms,
        user=user.astype(np.int32),
        item=item.astype(np.int32),
        rating=np.asarray(rating, dtype=np.float32),
        timestamp=None if seconds is None else seconds.astype(np.int64),
        user_ids=user_ids,
        item_ids=item_ids,
        titles=titles,
        genres=genres,
    )


# --- texts ------------------------------------------------------------------------------------------------------------


def newsgroups(part: str = "all") -> Dataset:
    """18,821 posts of 20 newsgroups. part: "train" (11,293), "test" or "all"."""
    lines = []
    for p in _parts(part, ("train", "test")):
        with gzip.open(
            SOURCES["newsgroups-20"].find(f"{p}.tsv.gz"), "rt", encoding="utf-8", newline="\n"
        ) as file:
            lines += [line.rstrip("\n").split("\t", 1) for line in file]
    names = tuple(sorted({group for group, _ in lines}))
    code = {name: i for i, name in enumerate(names)}
    y = np.array([code[group] for group, _ in lines], dtype=np.int64)
    return _dataset("newsgroups-20", texts=tuple(text for _, text in lines), y=y, names=names)


def tiny_shakespeare(*, download: bool = False) -> Dataset:
    """Shakespeare's plays as one text of 1,115,394 characters."""
    return _running_text("tiny-shakespeare", "input.txt.gz", download)


def wikitext_2(part: str = "train", *, download: bool = False) -> Dataset:
    """Wikipedia articles as one running text. part: "train" (2.05 million tokens), "valid" or "test"."""
    (part,) = _parts(part, ("train", "valid", "test"), whole=False)
    return _running_text("wikitext-2", f"{part}.txt.gz", download)


def _running_text(folder: str, name: str, download: bool) -> Dataset:
    with gzip.open(
        SOURCES[folder].find(name, download=download), "rt", encoding="utf-8", newline="\n"
    ) as file:
        return _dataset(folder, texts=(file.read(),))
