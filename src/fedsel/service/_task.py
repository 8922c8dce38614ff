"""The task of a service: one TOML file with all that is public about a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final, get_args

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, Loss
from fedsel._internal.progress import patience
from fedsel._internal.settings import check_keys, check_omitted, naming, naming_file, read_toml
from fedsel.auto import model_of, reachable_n_min, waiting_probability
from fedsel.errors import InvalidArgument, check_count, check_kind, check_positive
from fedsel.measuring import least_clients, question_recipe
from fedsel.preparation import FeatureScale
from fedsel.preparation._public import PRIVATE
from fedsel.recipe import AUTO, RECOMMENDED, Recipe
from fedsel.server._checkpoint import Checkpoint
from fedsel.server._keys import RunKeys
from fedsel.server._measuring import asking_run
from fedsel.server._plan import ServerPlan
from fedsel.service._public import check_start, read_rows, read_start
from fedsel.wire import CloseRule, Intent, Model, Question, RecordPipeline, Schema
from fedsel.wire._contract import Invitations, Shuffled, ShuffleRule, check_labels

_OF_RECIPE = [f.name for f in fields(Recipe) if f.name != "requested_solution"]
_RENAMED = {"nodes": "clients", "records_per_node": "records_per_client"}
"""Names that the layers below use for keys of the file."""
_SHORT = ("features", "labels", "target_range")
"""Keys that are a short way to write a schema."""
_OF_QUESTION = ("columns", "where", "bins", "quantiles")
"""Keys that say more about a kind of question."""
DROP_OUT = 0.1
"""The share of the clients that is taken not to report in an epoch."""
PART_BYTES = 1 << 20
"""Bytes of a part of a round that a relay releases: public, as the number of reports in it is."""
MOST_DIM = 1 << 27
"""Entries of an update: a gigabyte for each copy of the model that a server holds."""


@final
@dataclass(frozen=True)
class Limits:
    """What a client may do to the service.

    ``per_client`` and ``per_address``: requests a second, with a burst of ten times as many.
    ``batch_bytes``: of a gateway's batch, at most. ``header_seconds``, ``body_seconds``: how long a
    request may take to arrive; ``answer_seconds``: how long a client may take to read the answer;
    ``idle_seconds``: how long a connection is kept without a request.
    ``connections``: at a time, ``connections_per_address``: of one network, a proxy's excepted;
    ``waiting``: reports that wait for their commit; ``listeners``: pages that are kept up to date.
    These four hold in each process.
    """

    per_client: float = 5.0
    per_address: float = 200.0
    batch_bytes: int = 16 << 20
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 60.0
    idle_seconds: float = 75.0
    connections: int = 4096
    connections_per_address: int = 512
    waiting: int = 16384
    listeners: int = 256

    def __post_init__(self) -> None:
        for one in fields(self):
            value, name = getattr(self, one.name), f"limits.{one.name}"
            if one.type == "int":
                check_count(name, value)
            else:
                check_positive(name, value)


def check_name(name: object) -> None:
    """Refuse what cannot be the name of a run."""
    check_kind("name", name, str)
    if not name or len(str(name)) > 100 or not str(name).isprintable():
        raise InvalidArgument("name", name, "1 … 100 characters that can be printed")


@final
@dataclass(frozen=True)
class Task:
    """What a run is about, and how the service leads it.

    - ``recipe``: as asked for, with "auto" in it; ``clients``: planned, in an epoch; its
      ``rounds_per_epoch`` share them. What is automatic follows from these.
    - ``schema``: how devices encode their records and labels for a linear model;
      ``feature_range``: public bounds of columns that it knows by their order alone;
      ``public_mean``: published means of features, {name = mean}, or a list with nan where none is
      known; ``public_rows``: a file of records without labels that belong to nobody, which give
      the preparation of records (`fedsel.preparation`); ``loss``: of that model. Without a schema
      the recipe has ``dim``, and devices bring updates of their own.
    - ``question``: what is asked in place of training (`fedsel.wire.Question`); in a file a kind of
      question beside ``columns`` (or a schema), ``where``, ``bins`` and ``quantiles``, or a table
      of these. It is asked anew in each epoch, which each device pays.
    - ``start``: a file of weights (.npy) to begin with, or a model (.json), which also says how
      devices prepare records; zeros without one.
    - ``shuffle``: devices seal their reports and give them to a relay, which releases a round whole
      (`ShuffleRule`); in a file ``n_min`` may be "auto", which follows from clients and rounds.
    - ``close_after``: `CloseRule`; ``limits``: `Limits`; ``invitations``: "signed", or "open" to
      anyone; ``purpose``, ``recipient``: what requests say; ``origins``: web pages of other
      sites that may ask (CORS), none unless named.
    - ``evaluation``: a public test set, {data = "test.csv", label = "y"}; without a label its
      column is as the schema has it.
    - ``file``: what it was read from, for messages.
    """

    name: str
    recipe: Recipe
    clients: int
    close_after: CloseRule
    rounds_per_epoch: int = 1
    schema: Schema | None = None
    feature_range: Any = None
    public_mean: Any = None
    public_rows: Path | None = None
    records_per_client: int | None = None
    loss: Loss = "logistic"
    start: Path | None = None
    invitations: Invitations = "signed"
    purpose: str = ""
    recipient: str = ""
    origins: tuple[str, ...] = ()
    evaluation: dict[str, str] | None = None
    shuffle: ShuffleRule | None = None
    question: Question | None = None
    limits: Limits = field(default_factory=Limits)
    file: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.invitations not in get_args(Invitations):
            raise InvalidArgument("invitations", self.invitations, '"signed" or "open"')
        LinearModel(self.loss)
        if self.question is None:
            self._check_records()
        else:
            self._check_question(self.question)
        if self.dim > MOST_DIM:
            if self.schema is None:
                raise InvalidArgument("dim", self.dim, f"at most {MOST_DIM}")
            allowed = f"fewer: they ask for {self.dim} weights, of at most {MOST_DIM}"
            raise InvalidArgument("features", self.schema.feature_count, allowed)
        self._check_shuffle()
        _ = self.begin  # reports whatever else is wrong before anything is served

    def _check_question(self, question: Question) -> None:
        """Refuse what belongs to training, and clients of whom nothing could be said."""
        trains = ("feature_range", "public_mean", "public_rows", "records_per_client", "start")
        given = {name: getattr(self, name) for name in (*trains, "schema", "evaluation")}
        given["dim"], given["measure"] = self.recipe.dim, self.recipe.measure or None
        check_omitted("omitted with a question", **given)
        if self.rounds_per_epoch != 1:
            allowed = "1 with a question: its rounds would add up to one answer"
            raise InvalidArgument("rounds_per_epoch", self.rounds_per_epoch, allowed)
        if self.recipe.solution not in (RECOMMENDED, question.solution):
            allowed = f"omitted with a question: {question.solution} answers it"
            raise InvalidArgument("solution", self.recipe.solution, allowed)
        solution = self.begin.recipe.build()
        least = least_clients(solution)
        if self.clients < least:
            allowed = (
                f"at least {least:,} for ε = {float(solution.claimed):g} a report: with fewer the"
                " intervals would reach over half of the range"
            )
            raise InvalidArgument("clients", self.clients, allowed)

    def _check_records(self) -> None:
        if self.schema is None:
            names = ("feature_range", "public_mean", "public_rows", "records_per_client")
            given = {name: getattr(self, name) for name in names}
            check_omitted("omitted without features", **given)
            if self.recipe.dim is None:
                allowed = "set, or features, or dim for updates of your own"
                raise InvalidArgument("schema", None, allowed)
            return
        check_omitted("omitted: it follows from the schema", dim=self.recipe.dim)
        if self.schema.named:
            allowed = "omitted: the columns of the schema have bounds"
            check_omitted(allowed, feature_range=self.feature_range)
        if not self.schema.named and self.feature_range is None:
            raise InvalidArgument("feature_range", None, '(low, high), or "private"')
        check_labels(self.schema, self.loss)
        if isinstance(self.begins_with, Model):
            self._check_alone()

    def _check_alone(self) -> None:
        """Refuse other settings for preparing records, beside a model to start with."""
        allowed = "omitted beside a start model, which says how records are prepared"
        check_omitted(allowed, public_mean=self.public_mean, public_rows=self.public_rows)
        for name in ("centre", "spread"):
            if getattr(self.recipe, name) not in (0.0, AUTO):
                raise InvalidArgument(name, getattr(self.recipe, name), allowed)

    def _check_shuffle(self) -> None:
        """Refuse a rule that no round, or no relay, could keep."""
        rule, closing = self.shuffle, self.close_after
        if rule is None:
            return
        if self.invitations == "open":
            allowed = '"signed" with shuffle: one client that takes part often hides nobody'
            raise InvalidArgument("invitations", self.invitations, allowed)
        if closing.reports is not None and closing.reports < rule.n_min:
            allowed = f"at least shuffle.n_min = {rule.n_min}, or omitted"
            raise InvalidArgument("close_after.reports", closing.reports, allowed)
        measuring = self.begin.measuring
        if measuring is not None and self.begin.format_of(0).picks > 1:
            allowed = f"0 with shuffle and {self.begin.recipe.solution}: reports have two lengths"
            raise InvalidArgument("measure", self.recipe.measure, allowed)
        if self.limits.batch_bytes < PART_BYTES:
            allowed = f"at least {PART_BYTES} with shuffle, for the parts of a released round"
            raise InvalidArgument("limits.batch_bytes", self.limits.batch_bytes, allowed)
        in_round = self.clients // self.rounds_per_epoch
        if rule.n_min > in_round:
            allowed = (
                f"at most {in_round}, the clients of a round: {self.clients} share"
                f" {self.rounds_per_epoch}"
            )
            raise InvalidArgument("shuffle.n_min", rule.n_min, allowed)

    @cached_property
    def shuffled_epsilon(self) -> float:
        """What shuffling proves for all reports of a client: a central ε, at the rule's δ."""
        if self.shuffle is None:
            raise InvalidArgument("shuffle", None, "set")
        measuring = () if self.begin.measuring is None else self.begin.measuring.recipes
        with patience("proving the central guarantee"):
            proved = [
                self.shuffle.guarantee(recipe, composed=True).epsilon
                for recipe in (self.begin.recipe, *measuring)
            ]
        return max(proved)  # of the client that it protects least

    @property
    def release(self) -> CloseRule:
        """When a round is over: by ``close_after``, behind a relay never with fewer than n_min."""
        rule = self.shuffle
        return self.close_after if rule is None else self.close_after.relayed(rule.n_min)

    @property
    def needed(self) -> int:
        """How many reports a round needs at least to be over, however long it takes."""
        rule = self.release
        known = [rule.reports, None if rule.seconds is None else rule.least]
        return min(count for count in known if count is not None)

    @property
    def waiting(self) -> float:
        """At least the probability that some round has to wait for the reports that it needs.

        A tenth of the clients is taken to drop out.
        """
        known: dict[str, Any] = {"epochs": self.recipe.epochs, "drop_out": DROP_OUT}
        return waiting_probability(self.needed, self.clients, self.rounds_per_epoch, **known)

    def __str__(self) -> str:
        """How messages name it."""
        return f"the task {self.name!r}" + ("" if self.file is None else f" in {self.file.name}")

    @property
    def dim(self) -> int:
        """The entries of an update, or the number of answers."""
        if self.question is not None:
            return self.question.count
        return int(self.recipe.dim or 0) if self.schema is None else self.schema.dim

    @cached_property
    def planned(self) -> ServerPlan:
        """All that "auto" follows from."""
        about: dict[str, Any] = {"model": "network"}
        if self.schema is not None:
            start = self.begins_with
            about = {
                "norm": 1.0,
                "feature_range": self._bounds,
                "features": self.schema.feature_count,
                "public_mean": self.public_mean,
                "names": None if self.public_mean is None else self.schema.features,
                "records_per_node": self.records_per_client,
                "model": model_of(self.loss),
                "public_rows": self._rows,
                "start_pipeline": start.pipeline if isinstance(start, Model) else None,
            }
        return ServerPlan(self.recipe, self.clients, self.rounds_per_epoch, **about)

    @cached_property
    def begin(self) -> Checkpoint:
        """A new run of this task, before its first round."""
        if self.question is not None:
            return self._asking(self.question)
        recipe = self.planned.recipe_of(self.dim)
        preparing, start = self.planned.preparing_of(recipe), self.begins_with
        return Checkpoint.begin(
            recipe,
            weights=start.weights if isinstance(start, Model) else start,
            rounds_per_epoch=self.rounds_per_epoch,
            plan=None if preparing is None else preparing.plan,
            intent=Intent(self.purpose, self.recipient),
            given=self.planned.given(preparing),
            measuring=self.planned.measuring_of(recipe, self._classes),
        )

    def _asking(self, question: Question) -> Checkpoint:
        """A run that asks; the same question of the same recipient is the same run everywhere.

        So a device that has answered it sends the same report again, whatever its answer has
        become, and pays once.
        """
        recipe = question_recipe(question, self.recipe.epsilon or 0, self.recipe.epochs)
        begin = Checkpoint.begin(
            recipe,
            rounds_per_epoch=self.rounds_per_epoch,
            intent=Intent(self.purpose, self.recipient),
            asks=True,
        )
        return replace(begin, run=asking_run(question, begin.recipe, begin.intent))

    @property
    def _classes(self) -> int | None:
        """How many classes the model tells apart, 0 for numbers; None if its devices decide."""
        if self.schema is None:
            return None
        return 0 if self.schema.target_range else len(self.schema.class_names)

    def begun(self, secret: bytes) -> Checkpoint:
        """The same; of a shuffled run with its keys, which follow from a secret."""
        begin, rule = self.begin, self.shuffle
        if rule is None:
            return begin
        keys = RunKeys.of_secret(secret, begin.run).public
        return replace(begin, shuffled=Shuffled(rule, self.shuffled_epsilon, *keys))

    def preparing(self, state: Checkpoint) -> RecordPipeline | None:
        """What devices do with their records in this round; None where that is their own affair."""
        if self.question is not None:
            return None
        bounds = self.planned.bounds_of(self.dim)
        if bounds is None or state.preparation is None:
            return self.planned.preparing_of(state.recipe)
        return RecordPipeline(bounds, state.preparation, state.plan)

    @property
    def _bounds(self) -> Any:
        """The declared bounds of the features."""
        named = self.schema is not None and self.schema.named
        return self.schema.scale if named else self.feature_range  # type: ignore[union-attr]

    @cached_property
    def _rows(self) -> NDArray[np.float64] | None:
        if self.public_rows is None or self.schema is None:
            return None
        with patience(f"reading {self.public_rows.name}"):
            return read_rows(self.public_rows, self.schema)

    @cached_property
    def begins_with(self) -> NDArray[np.float64] | Model | None:
        """The weights, or the model, that training starts with; None for zeros."""
        start = None if self.start is None else read_start(self.start)
        if isinstance(start, Model):
            count = 0 if self.schema is None else self.schema.feature_count
            bounds = FeatureScale.declared(self._bounds, count) if count else None
            check_start(start, self.schema, bounds)
        return start

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The task of a TOML file; the file's name is the task's, unless it has one."""
        path, values = Path(path), read_toml("task", path)
        values.setdefault("name", path.stem)
        for key in ("start", "schema", "public_rows"):
            if isinstance(values.get(key), str):
                values[key] = path.parent / values[key]
        if isinstance(values.get("schema"), Path):
            values["schema"] = Schema.load(values["schema"])
        evaluation = values.get("evaluation")
        if isinstance(evaluation, dict) and isinstance(evaluation.get("data"), str):
            evaluation["data"] = str(path.parent / evaluation["data"])
        with naming_file(path):
            return cls.of(values, path)

    @classmethod
    def of(cls, values: Mapping[str, Any], file: Path | None = None) -> Self:
        """The task of a table: fields of a recipe and of a task side by side.

        >>> own = {"name": "a", "clients": 40, "close_after": {"reports": 10}}
        >>> task = Task.of({**own, "epsilon": 2, "dim": 8})
        >>> task.begin.recipe.solution, task.begin.recipe.dim
        ('FJ', 8)
        """
        own = [f.name for f in fields(cls) if f.name not in ("recipe", "file")]
        required = ("name", "epsilon", "clients", "close_after")
        check_keys(values, [*own, *_SHORT, *_OF_QUESTION, *_OF_RECIPE], required=required)
        with naming(_RENAMED):
            recipe = Recipe.of({k: v for k, v in values.items() if k in _OF_RECIPE})
            given = {k: v for k, v in values.items() if k in own}
            given["close_after"] = table_of(CloseRule, "close_after", given["close_after"])
            for key in ("start", "public_rows"):
                given[key] = _path(key, given.get(key))
            given["shuffle"] = _shuffle(values, recipe, given["close_after"])
            given["limits"] = table_of(Limits, "limits", given.get("limits", {}))
            given["evaluation"] = _evaluation(given.get("evaluation"))
            asked = _question(values)
            if asked is not None:
                given |= {"question": asked, "schema": None}
            elif "features" in values:
                given |= _schema_of_features(values)
            else:
                check_omitted("omitted without features", **{k: values.get(k) for k in _SHORT})
                given["schema"] = _schema(values.get("schema"))
            if "origins" in given:
                given["origins"] = texts_of("origins", given["origins"])
            return cls(recipe=recipe, file=file, **given)


def _question(values: Mapping[str, Any]) -> Question | None:
    """The question of a table, or of a kind with its columns beside it; None without one."""
    given = values.get("question")
    beside = {key: values[key] for key in _OF_QUESTION if values.get(key) is not None}
    if given is None:
        check_omitted("omitted without a question", **beside)
        return None
    if isinstance(given, Question):
        return given
    if isinstance(given, str):
        if values.get("schema") is not None:
            check_omitted("omitted beside a schema", columns=beside.get("columns"))
            schema = _schema(values["schema"])
            beside["columns"] = {} if schema is None else schema.columns
        if "columns" not in beside:
            raise InvalidArgument("columns", None, "a table of columns by name, or a schema")
        given = {"kind": given, **beside}
    with naming(lambda name: name.removeprefix("question.")):
        return Question.of_dict(given)


def _schema(given: Any) -> Schema | None:
    """The schema of a file's name or a table."""
    if given is None or isinstance(given, Schema):
        return given
    if isinstance(given, str | Path):
        return Schema.load(given)
    with naming(lambda name: name if name == "schema" else f"schema.{name}"):
        return Schema.of_dict(given)


def _schema_of_features(values: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that the short keys stand for, and the bounds that it does not hold.

    >>> short = {"features": ["age", "job=cook", "job=smith"], "feature_range": [0, 100]}
    >>> _schema_of_features(short)["schema"].to_dict()["columns"][1]
    {'name': 'job', 'levels': ['cook', 'smith']}
    """
    given = None if values.get("schema") is None else "a schema"
    check_omitted("omitted beside features", schema=given)
    features, bounds = values["features"], values.get("feature_range")
    labels, target = values.get("labels"), values.get("target_range")
    classes = None if labels is None else texts_of("labels", labels)
    of_label: dict[str, Any] = {"classes": classes, "target_range": target}
    with naming({"columns": "features", "classes": "labels"}):
        if isinstance(features, int) and not isinstance(features, bool):
            return {"schema": Schema(features, **of_label), "feature_range": bounds}
        names = texts_of("features", features)
        if bounds is None:
            raise InvalidArgument("feature_range", None, '[low, high], or "private"')
        scale = FeatureScale.declared(bounds, len(names))
        columns: dict[str, Any] = {}
        for name, low, high in zip(names, scale.low.tolist(), scale.high.tolist(), strict=True):
            owner, equals, level = name.partition("=")
            if owner and equals and level:
                levels = columns.setdefault(owner, [])
                columns[owner] = [*levels, level] if isinstance(levels, list) else levels
            else:
                columns[name] = PRIVATE if bounds == PRIVATE else (low, high)
        schema = Schema(columns, **of_label)
    if schema.features != names:
        allowed = "different names, the levels of a column one after another (job=cook, job=smith)"
        raise InvalidArgument("features", features, allowed)
    return {"schema": schema, "feature_range": None}


def _path(key: str, value: object) -> Path | None:
    if value is not None and not isinstance(value, str | Path):
        raise InvalidArgument(key, value, "the name of a file")
    return None if value is None else Path(value)


def table_of(kind: type[Any], name: str, values: object) -> Any:
    """A record of this kind from a table of the file."""
    known = [f.name for f in fields(kind)]
    if not isinstance(values, Mapping):
        raise InvalidArgument(name, values, f"a table with {', '.join(known)}")
    check_keys(values, known, within=f"{name}.")
    return kind(**values)


def _shuffle(values: Mapping[str, Any], recipe: Recipe, closing: CloseRule) -> ShuffleRule | None:
    """The rule of a relay; an automatic ``n_min`` is one that all rounds are sure to reach."""
    given = values.get("shuffle")
    if given is None:
        return None
    if isinstance(given, Mapping) and given.get("n_min", AUTO) == AUTO:
        clients = check_count("clients", values["clients"])
        rounds = check_count("rounds_per_epoch", values.get("rounds_per_epoch", 1))
        n_min = reachable_n_min(clients, rounds, epochs=recipe.epochs, drop_out=DROP_OUT)
        if n_min < 2:
            allowed = f"more, or fewer rounds: {rounds} in an epoch leave nobody to hide among"
            raise InvalidArgument("clients", clients, allowed)
        given = {**given, "n_min": min(n_min, closing.reports or n_min)}
    rule: ShuffleRule = table_of(ShuffleRule, "shuffle", given)
    return rule


def texts_of(name: str, values: object) -> tuple[str, ...]:
    """The texts of a list."""
    listed = isinstance(values, list | tuple) and values
    if not listed or not all(isinstance(v, str) and v for v in values):  # type: ignore[attr-defined]
        raise InvalidArgument(name, values, "a list of at least one text, none of them empty")
    return tuple(values)  # type: ignore[arg-type]


def _evaluation(values: object) -> dict[str, str] | None:
    if values is None:
        return None
    if not isinstance(values, Mapping) or set(values) | {"label"} != {"data", "label"}:
        raise InvalidArgument("evaluation", values, 'a table {data = "file.csv", label = "name"}')
    for key, value in values.items():
        if not isinstance(value, str):
            raise InvalidArgument(f"evaluation.{key}", value, "a text")
    return dict(values)
