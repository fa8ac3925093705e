"""Attention and what is built of it, against PyTorch's own layers: forward and backward at equal work, both cores.

Each section can be called alone: python -c "import bench.nets_attention as b; b.layers()"
The reference GPT and U-Net are those of peers/torch_reference.py (LEMMATA_PEERS, or /work/shared/peers); without that file
the rows are ours alone.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from bench.helpers.harness import compare, run_quietly
from lemmata.nets import (
    Decoder,
    LearnedPositions,
    MultiHeadAttention,
    TransformerBlock,
    UNet,
    ViT,
)

PEERS = Path(os.environ.get("LEMMATA_PEERS", "/work/shared/peers"))
SHAPES = ((16, 128, 128, 4), (64, 50, 64, 4), (8, 256, 256, 8))  # sequences, tokens, width, heads
VIT_EPOCHS = 6


def reference() -> Any:
    """The module of plain PyTorch networks that other figures were measured with, or None."""
    if not (PEERS / "torch_reference.py").exists():
        return None
    sys.path.insert(0, str(PEERS))
    import torch_reference

    return torch_reference


class TorchAttention(nn.Module):
    """nn.MultiheadAttention, called as it is in training: without weights."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return self.layer(x, x, x, need_weights=False)[0]


class GPT(nn.Module):
    """A decoder over 256 tokens: the same work as the reference's."""

    def __init__(self, vocabulary=256, width=128, depth=4, heads=4, length=128) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = LearnedPositions(length, width)
        self.decoder = Decoder(width, depth, heads)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.head(self.decoder(self.positions(self.tokens(tokens))))


def there_and_back(net: nn.Module, x: torch.Tensor, steps: int) -> None:
    """Forward and backward, so many times."""
    for _ in range(steps):
        net.zero_grad()
        x.grad = None
        net(x).sum().backward()


def layers(rounds: int = 9, steps: int = 10) -> None:
    """One layer against PyTorch's: attention alone, and the pre-norm block."""
    for B, T, width, heads in SHAPES:
        torch.manual_seed(0)
        x = torch.randn(B, T, width, requires_grad=True)
        pairs: dict[str, tuple[nn.Module, nn.Module]] = {
            "attention": (MultiHeadAttention(width, heads), TorchAttention(width, heads)),
            "pre-norm block": (
                TransformerBlock(width, heads),
                nn.TransformerEncoderLayer(
                    width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
                ),
            ),
        }
        for name, (ours, theirs) in pairs.items():
            compare(
                f"{name}, {B} × {T} tokens of width {width}, {heads} heads: {steps} forward and backward",
                {
                    "torch": partial(there_and_back, theirs, x, steps),
                    "lemmata": partial(there_and_back, ours, x, steps),
                },
                target=0.95,
                rounds=rounds,
            )


def train(net: nn.Module, loss_of: Any, steps: int, amp: bool) -> None:
    """So many steps of AdamW."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            loss = loss_of(net)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def rates(
    work: str, nets: dict[str, nn.Module], loss_of: Any, per_step: int, unit: str, steps: int
) -> None:
    """Rates of training in float32, and in bf16 where the processor has units for it; systems in turns."""
    precisions = {"float32": False}
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        precisions["bf16 autocast"] = True
    else:
        print(
            "(this processor has no bf16 units: bf16 is emulated, ten times slower, and left out)"
        )
    for precision, amp in precisions.items():
        seconds = compare_rates(
            {name: partial(train, net, loss_of, steps, amp) for name, net in nets.items()}
        )
        print(f"{work}, {precision}: {unit} (floating-point work of a step)")
        for name, net in nets.items():
            rate = per_step * steps / seconds[name]
            print(f"  {name:<34}{rate:10,.0f}  ({flops(net, loss_of) / 1e9:.2f} GFLOP)")
        print(flush=True)


def compare_rates(systems: dict[str, Any], rounds: int = 3) -> dict[str, float]:
    """The least seconds of each system, in turns."""
    best = dict.fromkeys(systems, float("inf"))
    for round_ in range(rounds + 1):
        for name, function in systems.items():
            begin = time.perf_counter()
            run_quietly(function)
            if round_:  # the first is a warm-up
                best[name] = min(best[name], time.perf_counter() - begin)
    return best


def flops(net: nn.Module, loss_of: Any) -> int:
    """Floating-point operations of a forward and a backward pass."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        loss_of(net).backward()
    return counter.get_total_flops()


def gpt(steps: int = 5) -> None:
    """Tokens a second: 4 layers of width 128, 16 sequences of 128."""
    torch.manual_seed(0)
    tokens = torch.randint(256, (16, 129))

    def loss_of(net):
        return F.cross_entropy(net(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())

    nets: dict[str, nn.Module] = {"lemmata": GPT()}
    if there := reference():
        nets["reference: TransformerEncoderLayer"] = there.GPT(encoder_layer=True)
        nets["reference: SDPA by hand"] = there.GPT()
    rates("GPT, 4 layers × 128, T = 128, batch 16", nets, loss_of, 16 * 128, "tokens/s", steps)


def unet(steps: int = 3) -> None:
    """Images a second of a U-Net with time: 64 images of 28², channels last."""
    torch.manual_seed(0)
    x = torch.rand(64, 1, 28, 28).contiguous(memory_format=torch.channels_last)
    noise, t = torch.randn(64, 1, 28, 28), torch.rand(64) * 10

    def loss_of(net):
        return F.mse_loss(net(x, t).float(), noise)

    nets: dict[str, nn.Module] = {"lemmata": UNet((1, 28, 28), width=32)}
    if there := reference():
        nets["reference (one block, no attention)"] = there.UNet()
    nets = {name: net.to(memory_format=torch.channels_last) for name, net in nets.items()}
    rates("U-Net 28², 32 channels, batch 64", nets, loss_of, 64, "images/s", steps)


def vit_model(seed: int, checkpoint: Any = None, seconds: float | None = None) -> Any:
    """The recipe for Fashion-MNIST: chosen on 5,000 of the training images (patch 4 or 7, the rate, the size of positions)."""
    from lemmata.nets import NeuralClassifier
    from lemmata.nets.augmentation import Flip

    return NeuralClassifier(
        ViT, net__patch_size=7, net__width=64, net__depth=4, net__heads=4,
        learning_rate=2e-3, weight_decay=0.05, schedule="one_cycle", clip=1.0, batch_size=128, max_iter=VIT_EPOCHS,
        augment=Flip(0.5), random_state=seed, checkpoint=checkpoint, time_limit=seconds,
    )  # fmt: skip


def vit_row(seeds=(0, 1, 2), folder: Any = None, seconds: float | None = None) -> bool:
    """Accuracy of a ViT on the test images of Fashion-MNIST, trained on all training images; True once all seeds are done.

    folder, seconds : checkpoints, and how long a seed may have been worked on, in all calls, before it is left for another
    """
    from lemmata import config
    from lemmata.data import fashion_mnist

    train, test = (fashion_mnist(part) for part in ("train", "test"))
    (X, y), (X_test, y_test) = ((d.X.reshape(-1, 1, 28, 28), d.y) for d in (train, test))
    scores = []
    for seed in seeds:
        path = None if folder is None else Path(folder) / f"vit-{seed}.ckpt"
        with config(certificate=False):
            model = run_quietly(lambda s=seed, p=path: vit_model(s, p, seconds).fit(X, y))
        if model.n_iter_ < VIT_EPOCHS:
            print(f"  seed {seed}: {model.n_iter_} of {VIT_EPOCHS} epochs", flush=True)
            continue
        scores.append(float(model.score(X_test, y_test)))
        elapsed = model.trace_.elapsed
        print(f"  seed {seed}: accuracy {scores[-1]:.4f}, trained for {elapsed:.0f} s", flush=True)
    if len(scores) == len(seeds):
        mean = sum(scores) / len(scores)
        print(
            f"ViT, Fashion-MNIST, {VIT_EPOCHS} epochs, mean of {len(scores)} seeds: {mean:.4f}  (target ≥ 0.88)\n"
        )
    return len(scores) == len(seeds)


def main() -> None:
    layers()
    gpt()
    unet()
    vit_row()


if __name__ == "__main__":
    main()
