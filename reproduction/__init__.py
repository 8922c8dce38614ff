"""The paper, reproduced and tested with the public API of fedsel only.

``python -m reproduction --help``
"""
