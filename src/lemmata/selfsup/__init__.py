"""Self-supervision: encoders from images without labels, and whether they learned anything (ML "Self-supervised Learning").

losses.py                        formulas, then functions of (z, z⁺)
networks.py, views.py            encoder, projector, predictor, target; two views of each image
objectives.py, measures.py       losses of a batch for training; alignment, uniformity, spectrum, sensitivity
simclr.py, byol.py, vicreg.py    the estimators, on base.py
pretext.py                       other questions that data answer themselves: turned, masked, continued
clip.py                          images and captions; classes by their names
probes.py                        probes: what a linear model makes of features, beside raw pixels and the untrained network
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "losses": "losses",
        "networks": "FeatureNet ImagesAndWords JointEmbedding",
        "views": "LeaveOut Views",
        "base": "SelfSupervised",
        "objectives": "Contrast Bootstrap Match VarianceCovariance",
        "simclr": "SimCLR",
        "byol": "BYOL",
        "vicreg": "VICReg",
        "pretext": "Continued Masked Turned pretrain",
        "clip": "CLIP ZeroShot",
        "measures": "sensitivity",
        "probes": "probe",
    },
    extra=("torch", "deep"),
)
