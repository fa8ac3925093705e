"""Two processes give the weights of one with the whole batch, to rounding."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
from nets_two_processes import trained

HERE = Path(__file__).parent


def test_two_processes_train_as_one(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}  # fmt: skip
    children = [
        subprocess.Popen(
            [sys.executable, HERE / "nets_two_processes.py", tmp_path],
            env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    alone = trained(12)
    try:
        assert [child.wait(timeout=60) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()
    one, other = (np.load(tmp_path / f"{rank}.npz") for rank in range(2))
    for name, array in alone.state.model.items():
        assert np.array_equal(one[name], other[name])
        np.testing.assert_allclose(one[name], array, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one["loss"], alone.trace.objective, rtol=1e-10)
