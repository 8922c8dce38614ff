"""A bundle of the tests."""
