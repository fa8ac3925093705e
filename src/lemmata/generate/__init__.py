"""Generative models: draw new rows like those seen, and say how probable a row is.

Series (`AR`) factorise a density over time, `PixelCNN` and `WaveNet` the probability of images and sounds; flows
(`NormalizingFlow`) bend a normal density by bijections; `VAE` decodes normal codes, and bounds ln p; `GAN` plays against a
discriminator, and has no likelihood. `Density` makes any function of rows that gives ln p certifiable.
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "series.estimator": "AR",
        "pixels.estimator": "PixelCNN WaveNet",
        "flows.estimator": "NormalizingFlow",
        "vae.estimator": "VAE",
        "gan": "gan",
        "gan.estimator": "GAN",
        "foreign": "Density",
        "diffusion.denoisers": "Denoiser",
        "diffusion.estimator": "Diffusion",
        "diffusion.latent": "Latent",
        "diffusion.cascade": "Cascade",
        "judging": "Samples classifier_score compare_frechet cross_play frechet_distance kernel_test overlap",
    },
)
