"""Networks that make images, drawn from the modules themselves (CIL Fig. 5.7, 5.12, 5.13)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure

Shape = tuple[int, ...]


def _record_shapes(net: Any, parts: list[Any], *inputs: Any) -> list[Shape]:
    """(channels, height, width) of what each part gives, in the order in which they run."""
    import torch

    found: list[Shape] = []
    hooks = [part.register_forward_hook(lambda *call: found.append(tuple(call[2].shape[1:]))) for part in parts]  # fmt: skip
    with torch.no_grad():
        net.eval()(*inputs)
    for hook in hooks:
        hook.remove()
    return found


def _draw_maps(axes: Any, shapes: list[Shape], middles: list[float], color: str) -> None:
    """A box for every map: as high as its side, as wide as it has channels."""
    from matplotlib.patches import Rectangle

    for (channels, side, _), x in zip(shapes, middles, strict=True):
        wide = 0.15 + 0.6 * channels / 128
        axes.add_patch(Rectangle((x - wide / 2, -side / 2), wide, side, color=color, alpha=0.75))
        axes.text(x, -side / 2 - 1, f"{channels}\n{side}²", ha="center", va="top", fontsize=7)
    axes.set(xlim=(min(middles) - 0.7, max(middles) + 0.7), ylim=(-25, 23))
    axes.set_axis_off()


@entry("image-networks", "CIL Fig. 5.7, 5.12, 5.13")
def image_networks() -> Any:
    """Networks that make images: a DCGAN doubles its grid, a U-Net halves and doubles it, a cascade begins small.

    Boxes are what layers give for images of 28 × 28, as high as their side and as wide as they have channels (first number).
    Left: the generator of a DCGAN. Middle: a U-Net, whose halves are joined at each size (grey). Right: multiplications
    that a step of the U-Net takes for an image of 8, 16 and 32 pixels a side, the stages of a cascade.
    """
    import torch
    from torch import nn

    from lemmata.generate.diffusion.network import DiffusionNet, count_products
    from lemmata.generate.gan.players import DCGenerator
    from lemmata.nets.images.unet import UNet

    generator = DCGenerator(64, (1, 28, 28))
    layers = [one for one in generator if isinstance(one, (nn.Unflatten, nn.ConvTranspose2d))]
    grown = _record_shapes(generator, layers, torch.zeros(1, 64))
    net = UNet((1, 28, 28), width=32)
    blocks = [net.down1, net.down2, net.middle1, net.middle2, net.up2, net.up1]
    shapes = _record_shapes(net, blocks, torch.zeros(1, 1, 28, 28), torch.ones(1))
    drawing, (left, middle, right) = figure(columns=3, size=(3.5, 2.9))
    _draw_maps(left, grown, [float(at) for at in range(len(grown))], BLUE)
    left.set_title("DCGAN's generator")
    places = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    _draw_maps(middle, shapes, places, ORANGE)
    for a, b in ((0, 5), (1, 4)):
        above = shapes[a][1] / 2 + 2
        middle.plot([a, a, b, b], [above - 1, above, above, above - 1], color=GREY, linewidth=1)
    middle.set_title("U-Net")
    sides = (8, 16, 32)
    nets = [DiffusionNet(UNet((1, side, side), width=32), (1, side, side), 10) for side in sides]
    work = [count_products(one) / 1e6 for one in nets]
    right.bar([f"{side}²" for side in sides], work, color=BLUE)
    for at, value in enumerate(work):
        right.text(at, value, f"{value:.0f}", ha="center", va="bottom", fontsize=8)
    right.set(title="a step of a cascade's stages", ylabel="million multiplications")
    halves = [small[1] == (large[1] + 1) // 2 for small, large in pairwise(grown)]
    show(all(halves), "each layer of the generator doubles the grid")
    show([one[1] for one in shapes] == [28, 14, 7, 7, 14, 28], "the U-Net goes down and up again")
    show(work[2] > 10 * work[0], "a step at 8 pixels costs less than a tenth of one at 32")
    return drawing
