"""Charts and tables of runs, measured and simulated, on one page."""
