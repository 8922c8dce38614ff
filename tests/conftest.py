"""Shared settings of the suite.

Statistical tests have fixed seeds and a false-alarm rate of 1e-9 each, far below 1e-6 together.
"""

from hypothesis import settings

settings.register_profile("fedsel", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("fedsel")
