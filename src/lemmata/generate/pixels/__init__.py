"""Autoregressive networks over levels: images pixel by pixel (PixelCNN), sounds sample by sample (WaveNet)."""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__, {"network": "CausalNet GatedBlock"}, ("torch", "deep")
)
