"""Revision 1: the tables. Stores from before there were revisions have them already."""

from alembic import op

revision = "1"
down_revision = None

_TABLES = """
CREATE TABLE IF NOT EXISTS {schema}runs (
  id {id} PRIMARY KEY, name text NOT NULL UNIQUE, key {bytes} NOT NULL, checkpoint {bytes} NOT NULL,
  round {int} NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}rounds (
  run integer NOT NULL, round {int} NOT NULL, opened {real} NOT NULL, closed {real}, measured text,
  PRIMARY KEY (run, round)
) {clustered};
CREATE TABLE IF NOT EXISTS {schema}tallies (
  run integer NOT NULL, round {int} NOT NULL, {worker} accepted {int} NOT NULL,
  rejected {int} NOT NULL, duplicate {int} NOT NULL, late {int} NOT NULL,
  PRIMARY KEY ({tally})
) {clustered};
CREATE TABLE IF NOT EXISTS {schema}reports (
  run integer NOT NULL, round {int} NOT NULL, participant {bytes} NOT NULL, report {bytes} NOT NULL,
  PRIMARY KEY (run, round, participant)
) {clustered};
CREATE TABLE IF NOT EXISTS {schema}batches (
  run integer NOT NULL, gateway {bytes} NOT NULL, batch {bytes} NOT NULL, round {int} NOT NULL,
  digest {bytes} NOT NULL, accepted {int} NOT NULL, rejected {int} NOT NULL,
  duplicate {int} NOT NULL, late {int} NOT NULL, reports {bytes} NOT NULL,
  PRIMARY KEY (run, gateway, batch)
);
CREATE INDEX IF NOT EXISTS batches_of_round ON {schema}batches (run, round)
"""
_WORDS = {
    "sqlite": ("", "integer", "integer", "real", "blob", "WITHOUT ROWID", "", "run, round"),
    "postgresql": (
        "fedsel.",
        "integer GENERATED ALWAYS AS IDENTITY",
        "bigint",
        "double precision",
        "bytea",
        "",
        "worker bytea NOT NULL,",
        "run, round, worker",
    ),
}


def upgrade() -> None:
    """Create the tables that are missing."""
    names = ("schema", "id", "int", "real", "bytes", "clustered", "worker", "tally")
    words = dict(zip(names, _WORDS[op.get_bind().dialect.name], strict=True))
    for statement in _TABLES.format(**words).split(";"):
        op.execute(statement)
