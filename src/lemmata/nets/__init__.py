"""Neural networks (CIL 4; ML "Deep Learning" to "Transformers"): trained by the loop of every fit, certified like every fit.

Backpropagation by hand needs NumPy alone (`MLPClassifier`, `MLPRegressor`); everything else stands on PyTorch, which is
imported when a network is built and not before.
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "estimators.supervised": "NeuralClassifier NeuralRegressor",
        "training.algorithm": "Training",
        "training.running": "train",
        "training.trainer": "TrainingState",
        "data.batches": "Rows",
        "training.losses": "Objective Terms objective CrossEntropy Huber",
        "training.rules": "Alternating Extragradient Players Synchronous",
        "training.optimisers": "WarmUp OneCycle",
        "training.transfer": "Transfer",
        "training.devices": "processes",
        "estimators.networks": "FeedForward AutoencoderNet Reconstruction",
        "mlp.network": "MLP",
        "mlp.estimators": "MLPClassifier MLPRegressor",
        "attention.heads": "MultiHeadAttention attention_by_definition attention_maps KeyValues",
        "attention.as_convolution": "AttentionConvolution",
        "attention.positions": "LearnedPositions SinusoidalPositions sinusoidal",
        "attention.transformer": "TransformerBlock Encoder Decoder EncoderDecoder TokenEmbedding ClassTokenHead MeanHead",
        "attention.vit": "ViT",
        "images.unet": "UNet",
        "texts": "TextCNN pad_tokens",
        "timed": "TimeAndClass AdaptiveGroupNorm TimedMLP",
        "estimators.autoencoder": "Autoencoder",
        "augmentation": "augmentation",
        "approximation": "approximation",
        "images.convnets": "AlexNet ConvNet VGG",
        "images.normalisation": "BatchNorm LayerNorm",
        "images.receptive_fields": "ReceptiveField measure_receptive_field receptive_field",
        "images.resnet": "ResNet ResidualBlock",
        "images.soundnet": "SoundNet",
        "images.convolution": "convolution convolve correlate recover_kernel",
    },
    extra=("torch", "deep"),
)
