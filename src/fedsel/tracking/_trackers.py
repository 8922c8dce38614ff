"""Trackers for MLflow and TensorBoard."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fedsel._internal.extras import needed
from fedsel.server._step import History
from fedsel.tracking._callbacks import Callback, Record, Run

_PARAMETERS_AT_ONCE = 100
"""MLflow takes no more in one call."""


class MLflowTracker(Callback):
    """Log a run to MLflow: parameters, the statement of privacy, and the figures of each round.

    ``tracking_uri`` is where MLflow keeps its runs, such as "sqlite:///runs.db"; without it MLflow
    decides, by the variable MLFLOW_TRACKING_URI for example. Every run of fedsel becomes a new run
    of the ``experiment``; ``run_id`` is the id of the last one.
    """

    def __init__(
        self,
        experiment: str = "fedsel",
        *,
        tracking_uri: str | None = None,
        run_name: str | None = None,
    ) -> None:
        with needed("mlflow", "MLflowTracker"):
            import mlflow
        self._entities = mlflow.entities
        self.client = mlflow.MlflowClient(tracking_uri)
        self.experiment, self.run_name = experiment, run_name
        self.run_id = ""

    def on_start(self, run: Run) -> None:
        """Create the run, with its parameters and the statement as its description."""
        known = self.client.get_experiment_by_name(self.experiment)
        number = self.client.create_experiment(self.experiment) if known is None else None
        made = self.client.create_run(
            number if known is None else known.experiment_id, run_name=self.run_name or run.name
        )
        self.run_id = made.info.run_id
        given = {"epsilon_total": run.epsilon, **run.parameters}
        rows = [self._entities.Param(key, str(value)) for key, value in given.items()]
        for at in range(0, len(rows), _PARAMETERS_AT_ONCE):
            self.client.log_batch(self.run_id, params=rows[at : at + _PARAMETERS_AT_ONCE])
        self.client.set_tag(self.run_id, "mlflow.note.content", run.statement)

    def on_round(self, record: Record) -> None:
        """Log all figures of the round, with its number as the step."""
        now, step = int(1000 * time.time()), int(record["round"])
        rows = [
            self._entities.Metric(key, float(value), now, step)
            for key, value in record.items()
            if key != "round"
        ]
        self.client.log_batch(self.run_id, metrics=rows)

    def on_end(self, history: History) -> None:
        """Mark the run as finished."""
        del history
        self.client.set_terminated(self.run_id)


class TensorBoardTracker(Callback):
    """Write the figures of each round to an event file in ``folder``, which TensorBoard shows.

    The folder of a new run must be new: TensorBoard would draw both runs as one.
    """

    def __init__(self, folder: str | Path) -> None:
        with needed("tensorboard", "TensorBoardTracker"):
            import tensorboardX
        self.folder, self._library = Path(folder), tensorboardX
        self._writer: Any = None

    def on_start(self, run: Run) -> None:
        """Open the file, and write parameters and the statement of privacy as texts."""
        self._writer = self._library.SummaryWriter(str(self.folder))
        rows = [f"| {key} | {value} |" for key, value in run.parameters.items()]
        self._writer.add_text("parameters", "\n".join(["| | |", "|---|---|", *rows]), 0)
        self._writer.add_text("privacy", run.statement, 0)
        self._writer.flush()

    def on_round(self, record: Record) -> None:
        """Write all figures of the round, with its number as the step."""
        for key, value in record.items():
            if key != "round":
                self._writer.add_scalar(key, value, int(record["round"]))

    def on_end(self, history: History) -> None:
        """Close the file."""
        del history
        self._writer.close()
