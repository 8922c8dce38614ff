"""Take part in a run that a service leads over HTTP, with the standard library and numpy alone."""

from fedsel.device.joining.outcome import Ending, Outcome
from fedsel.device.joining.records import RawRecords
from fedsel.device.joining.visit import Asked, Visit, join

__all__ = ["Asked", "Ending", "Outcome", "RawRecords", "Visit", "join"]
