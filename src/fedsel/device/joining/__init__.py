"""Take part in a run that a service leads over HTTP, with the standard library and numpy alone."""

from fedsel.device._records import RawRecords
from fedsel.device.joining._connection import Ended, Ending
from fedsel.device.joining._models import read_model
from fedsel.device.joining._session import Offer, Outcome, Session, join

__all__ = ["Ended", "Ending", "Offer", "Outcome", "RawRecords", "Session", "join", "read_model"]
