"""The trusted base: every claim that a certificate makes, and the plain code that checks it.

One module per subject. Nothing here imports a solver, a kernel or the driver; nothing that solves imports more from here than
the tuple of its claims (a test walks the imports of both sides). `docs/audit.md` says what a verdict is worth.
"""
