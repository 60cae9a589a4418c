"""Published measurements: reading them, predicting each, fitting the cost model to them, and how far off it is."""
