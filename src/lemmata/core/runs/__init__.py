"""Around a run: its trace, progress on a terminal, checkpoints, restarts and paths."""
