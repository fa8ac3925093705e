"""Files larger than the memory a fit may use."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_large_file_is_fitted_in_little_memory(tmp_path):
    """1.6 GB of rows, below 600 MB in the process, and the planted axes are found."""
    path, d = tmp_path / "rows.npy", 1000
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(400_000, d))
    rng = np.random.default_rng(0)
    for start in range(0, len(file), 20_000):
        rows = rng.standard_normal((20_000, d), dtype=np.float32)
        rows[:, :3] *= (9, 6, 4)
        file[start : start + 20_000] = rows
    del file
    script = textwrap.dedent(
        """
        import sys
        import numpy as np
        from lemmata import PCA
        model = PCA(3).fit(np.load(sys.argv[1], mmap_mode="r"))
        print(abs(model.components_[:, :3]).diagonal().min())
        print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    cosine, peak = map(float, done.stdout.split())
    assert cosine > 0.999
    assert peak < 600
