"""Certify a module of plain PyTorch: a small language model that sees one word of the future, and would never tell.

./run py examples/certify_a_module.py
"""

import torch
from torch import nn

import lemmata


class Words(nn.Module):
    """Tokens in, scores of the next token out; the mask says who may look at whom."""

    def __init__(self, mask: torch.Tensor):
        super().__init__()
        self.embedding = nn.Embedding(12, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 12)
        self.register_buffer("mask", mask)

    def forward(self, tokens):
        return self.head(self.block(self.embedding(tokens), src_mask=self.mask))


torch.manual_seed(0)
T = 8
tokens = torch.randint(0, 12, (32, T))
triangle = torch.ones(T, T, dtype=torch.bool).triu(1)  # True: may not look
slip = triangle.clone()
slip[4, 5] = False  # one place of 28

# The slip is worth a little loss on every sentence, so nobody who looks at losses finds it.
for name, mask in {"the triangle": triangle, "one slip": slip}.items():
    found = lemmata.certify(Words(mask), tokens, properties=("causal",))
    print(f"--- {name}: {found.counts}")
    print(found["causal"].verdict, "|", found["causal"].numbers, *found["causal"].remarks, "\n")
assert found.failed == ["causal"]
assert found["causal"].kind == "proved"

# In a script, require() stops what should not be shipped.
try:
    found.require("causal")
except lemmata.NotCertified as error:
    print(error)
