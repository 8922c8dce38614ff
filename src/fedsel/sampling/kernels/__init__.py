"""Compiled kernels of the simulator, and the tables that they read."""
