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
        "heads": "MultiHeadAttention attention_by_definition attention_maps KeyValues",
        "as_convolution": "AttentionConvolution",
        "positions": "LearnedPositions SinusoidalPositions sinusoidal",
        "transformer": "TransformerBlock Encoder Decoder EncoderDecoder TokenEmbedding ClassTokenHead MeanHead",
        "vit": "ViT",
    },
    extra=("torch", "deep"),
)
