"""Networks for images and sounds, and their parts (CIL 4.4; ML "Convolutional Networks").

convolution.py, normalisation.py            as defined, and equal to torch's
convnets.py, resnet.py, soundnet.py         ConvNet, AlexNet, VGG; ResNet; SoundNet
unet.py                                     UNet, an image to an image
receptive_fields.py                         the inputs an output depends on
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "convolve": "convolution",
        "correlate": "convolution",
        "recover_kernel": "convolution",
        "BatchNorm": "normalisation",
        "LayerNorm": "normalisation",
        "ConvNet": "convnets",
        "AlexNet": "convnets",
        "VGG": "convnets",
        "ResNet": "resnet",
        "ResidualBlock": "resnet",
        "SoundNet": "soundnet",
        "UNet": "unet",
        "ReceptiveField": "receptive_fields",
        "receptive_field": "receptive_fields",
        "measure_receptive_field": "receptive_fields",
    },
    extra=("torch", "deep"),
)
