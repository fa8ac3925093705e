"""Augmentation: bytes of images changed per second, each augmentation on batches as training uses them."""

import time

import torch


def main() -> None:
    from lemmata.nets import augmentation as aug

    grey, colour = torch.rand(256, 1, 28, 28), torch.rand(64, 3, 64, 64)
    kinds = (
        aug.Shift(2), aug.Flip(0.5), aug.Rotate(10), aug.CropResize(), aug.CutOut(8), aug.Noise(0.05), aug.Blur((0.1, 1.0)),
        aug.ColourJitter(0.2, 0.2), aug.for_data("fashion_mnist"), aug.for_data("mnist"),
    )  # fmt: skip
    print(
        f"GB/s of float32 images, {torch.get_num_threads()} threads; best of 5 runs of 20 batches\n"
    )
    print(f"{'augmentation':<24} {'256 × 1 × 28²':>14} {'images/s':>12} {'64 × 3 × 64²':>14}")
    for augment in kinds:
        rates = []
        for batch in (grey, colour):
            generator, best = torch.Generator().manual_seed(0), float("inf")
            augment(batch, generator)
            for _ in range(5):
                begin = time.perf_counter()
                for _ in range(20):
                    augment(batch, generator)
                best = min(best, (time.perf_counter() - begin) / 20)
            rates.append((batch.nbytes / best / 1e9, len(batch) / best))
        name = getattr(augment, "data", type(augment).__name__)
        print(f"{name:<24} {rates[0][0]:>14.2f} {rates[0][1]:>12,.0f} {rates[1][0]:>14.2f}")


if __name__ == "__main__":
    main()
