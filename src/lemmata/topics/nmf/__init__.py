"""Non-negative matrix factorisation (CIL 3.2.6; CIL20 4.5): X ≈ W H with nothing to subtract, so that parts add up.

table           the matrix in parts, with what is not known of it
squares         ½‖X − WH‖²: what one pass says, and the algorithm around any of three updates
hals, multiplicative, projected_als
                the three updates of a factor: best co-ordinates, ratios, least squares clipped at 0
divergence      the Kullback–Leibler divergence, by the E-step of pLSA
initialisation  where factors start
estimator       NMF
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(__name__, {"estimator": "NMF"})
