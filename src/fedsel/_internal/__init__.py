"""Helpers that several parts of the package share; none of them is public."""
