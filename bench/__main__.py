"""./run bench [NAME…]: run the named benchmarks, or list them."""

import importlib
import pkgutil
import sys

import bench
from bench.helpers.harness import machine


def main() -> int:
    found = pkgutil.iter_modules(bench.__path__)
    known = sorted(m.name for m in found if not m.ispkg and m.name != "__main__")
    # nets runs its parts
    names = sys.argv[1:] or [name for name in known if not name.startswith("nets_")]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(
            f"bench: there is no benchmark {unknown[0]!r}; there are {', '.join(known)}.",
            file=sys.stderr,
        )
        return 2
    machine()
    for name in names:
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
