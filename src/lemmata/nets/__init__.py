"""Neural networks (CIL 4; ML "Deep Learning" to "Transformers"): trained by the loop of every fit, certified like every fit.

Backpropagation by hand needs NumPy alone (`MLPClassifier`, `MLPRegressor`); everything else stands on PyTorch, which is
imported when a network is built and not before.
"""

from lemmata.lazy import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "MultiHeadAttention": "attention",
        "attention_by_definition": "attention",
        "attention_maps": "attention",
        "KeyValues": "attention",
        "AttentionConvolution": "attention_convolution",
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
        "UNet": "unet",
        "augmentation": "augmentation",
        "AlexNet": "convnets",
        "BatchNorm": "normalisation",
        "ConvNet": "convnets",
        "LayerNorm": "normalisation",
        "ReceptiveField": "receptive_fields",
        "ResNet": "resnet",
        "ResidualBlock": "resnet",
        "SoundNet": "soundnet",
        "VGG": "convnets",
        "convolution": "convolution",
        "convolve": "convolution",
        "correlate": "convolution",
        "measure_receptive_field": "receptive_fields",
        "receptive_field": "receptive_fields",
        "recover_kernel": "convolution",
    },
    extra=("torch", "deep"),
)
