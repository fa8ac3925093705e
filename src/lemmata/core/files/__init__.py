"""Files: values as bytes and back, checks of their layout, owners of checkpoints."""
