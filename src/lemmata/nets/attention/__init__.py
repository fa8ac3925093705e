"""Attention and what is built of it (ML "Attention" to "Vision Transformer").

heads.py            scaled dot products, several heads, masks
positions.py        learned and sinusoidal
transformer.py      blocks, Encoder, Decoder, EncoderDecoder
vit.py              patches of an image as a sequence
as_convolution.py   attention that is a convolution
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "MultiHeadAttention": "heads",
        "attention_by_definition": "heads",
        "attention_maps": "heads",
        "KeyValues": "heads",
        "AttentionConvolution": "as_convolution",
        "LearnedPositions": "positions",
        "SinusoidalPositions": "positions",
        "sinusoidal": "positions",
        "TransformerBlock": "transformer",
        "Encoder": "transformer",
        "Decoder": "transformer",
        "EncoderDecoder": "transformer",
        "TokenEmbedding": "transformer",
        "ClassTokenHead": "transformer",
        "MeanHead": "transformer",
        "ViT": "vit",
    },
    extra=("torch", "deep"),
)
