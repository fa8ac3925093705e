"""Remove noise from a picture: atoms are learnt from the noisy patches, and every patch becomes a short code of them.

python examples/denoise_patches.py
"""

import numpy as np
from sklearn.datasets import load_digits

import lemmata

rng = np.random.default_rng(0)
true = load_digits().data / 16  # 1,797 patches of 8 × 8 pixels, 0 to 1
noisy = true + 0.25 * rng.normal(size=true.shape)


def decibels(X):
    return -10 * np.log10(np.square(X - true).mean())


mean = noisy.mean(axis=0)
model = lemmata.DictionaryLearning(
    96, method="ksvd", n_nonzero=3, max_iter=8, tol=0.0, random_state=0
)
clean = model.fit(noisy - mean).inverse_transform(model.transform(noisy - mean)) + mean

pca = lemmata.PCA(3).fit(noisy)
flat = pca.inverse_transform(pca.transform(noisy))

print(f"noisy                    {decibels(noisy):.1f} dB")
print(f"3 principal components   {decibels(flat):.1f} dB")
print(f"3 of 96 learnt atoms     {decibels(clean):.1f} dB\n")
print(model.certify(noisy - mean))
