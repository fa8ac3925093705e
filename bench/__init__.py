"""Side-by-side benchmarks: us and the peers on the same work in one run, to the same quality, both cores allowed to all."""
