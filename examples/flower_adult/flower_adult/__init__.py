"""A Flower app whose nodes send private reports and nothing else."""
