"""Claims about how near a completion is to the best one: curvature, lower bounds by duality."""
