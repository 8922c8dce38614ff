"""``python small_parts.py relay …``: `fedsel` whose relay delivers a round in parts of 5 reports.

A script of its own, because each worker runs it again.
"""

from fedsel.cli import main
from fedsel.service.relay import _courier

_courier.PART_BYTES = 5 * 64

if __name__ == "__main__":
    main()
