"""The paper, reproduced and put to the test, with nothing but the public API of fedsel.

``python -m reproduction --help``
"""
