"""Generative adversarial networks (CIL 5.4): a generator and a discriminator that play a game.

losses.py      what each player minimises, with the R1 penalty
players.py     both players as one module: perceptrons for tables, DCGAN for images, classes and given channels
theory.py      the best discriminator of two densities, the value of the game, and two games that can be solved by hand
estimator.py   GAN
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "estimator": "GAN",
        "players": "GANNet DCGenerator DCDiscriminator ImageTranslator",
        "losses": "Adversarial",
        "theory": "best_discriminator game_value jensen_shannon bilinear DiracGAN step_matrix",
    },
    extra=("torch", "deep"),
)
