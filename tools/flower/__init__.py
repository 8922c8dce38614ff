"""A Flower federation on this machine, for `make flower` and for the tests."""
