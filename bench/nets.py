"""Networks: training, images, attention, backpropagation by hand. Each part is a module nets_*.py and runs alone, too."""

import importlib
import pkgutil

import bench

PARTS = sorted(m.name for m in pkgutil.iter_modules(bench.__path__) if m.name.startswith("nets_"))


def main() -> None:
    for name in PARTS:
        print(f"--- {name} ---\n", flush=True)
        importlib.import_module(f"bench.{name}").main()
