"""What answers say together: shares with intervals, and what follows from them."""

from fedsel.measuring._metrics import Calibration
from fedsel.measuring._model import (
    Measured,
    Measurement,
    answer_recipe,
    measurement,
    measuring_clients,
)
from fedsel.measuring._planning import (
    clients_for,
    expected_error,
    half_width,
    least_clients,
    question_recipe,
)
from fedsel.measuring._recalibration import Recalibration
from fedsel.measuring._tally import Estimate, Tally, consistent

__all__ = [
    "Calibration",
    "Estimate",
    "Measured",
    "Measurement",
    "Recalibration",
    "Tally",
    "answer_recipe",
    "clients_for",
    "consistent",
    "expected_error",
    "half_width",
    "least_clients",
    "measurement",
    "measuring_clients",
    "question_recipe",
]
