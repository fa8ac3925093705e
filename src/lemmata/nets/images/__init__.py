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
        "convolution": "convolve correlate recover_kernel",
        "normalisation": "BatchNorm LayerNorm",
        "convnets": "ConvNet AlexNet VGG",
        "resnet": "ResNet ResidualBlock",
        "soundnet": "SoundNet",
        "unet": "UNet",
        "receptive_fields": "ReceptiveField receptive_field measure_receptive_field",
    },
    extra=("torch", "deep"),
)
