"""The convex side of completion (CIL 2.5): nuclear norms, thresholds, projections onto rank k."""
