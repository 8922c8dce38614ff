"""Public rows and start models of a task: what the estimator makes of the same rows."""

import json
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fedsel import FedSelClassifier, FedSelRegressor, InvalidArgument, PrivacyLeakWarning
from fedsel._internal.random import stream
from fedsel.device import Client, Policy, RawRecords, join
from fedsel.preparation import Preparation
from fedsel.preparation._given import LARGEST_SENT
from fedsel.server._checkpoint import Checkpoint
from fedsel.service import Task
from fedsel.service._dashboard import task_facts
from fedsel.service._snapshot import RunSnapshot
from fedsel.service._store import open_store
from fedsel.service._training import opened
from fedsel.simulation import Training
from fedsel.wire import Announcement, Model, RecordPipeline, Schema
from tests.service.support import FREE, running, task_of

OWN = {"solution": None, "k": None, "mu": None, "learning_rate": None, "dim": None}
COLUMNS = {"a": [-4, 4], "b": [0, 40], "c": "private", "kind": ["x", "y"]}
LABELS = {2: ["no", "yes"], 3: ["blue", "green", "red"]}


def table_of(count, seed=0, classes=2):
    """Records as a table, and their labels: they differ most in one direction."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count)
    table = {
        "a": np.round(0.6 * (y - 0.5) + rng.normal(0, 0.4, count), 5),
        "b": np.round(20 + 4 * y + rng.normal(0, 6, count), 5),
        "c": np.round(rng.normal(3, 0.02, count), 5),
        "kind": np.where(rng.random(count) < 0.8, "x", "y"),
    }
    return table, np.array(LABELS[classes])[y]


def written(path, table):
    lines = [
        ",".join(table),
        *(",".join(map(str, row)) for row in zip(*table.values(), strict=True)),
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def settings(folder, classes=2, rows=300, **more):
    """A task with public rows, and its schema."""
    schema = {"columns": COLUMNS, "classes": LABELS[classes], "label": "what"}
    table, labels = table_of(rows, seed=7, classes=classes)
    file = written(folder / "rows.csv", {"what": labels, **table})
    given = {"schema": schema, "epsilon": 6.0, "clients": 600, "rounds_per_epoch": 20}
    close = {"close_after": {"reports": 30}, "reg": 0.01}
    return {**OWN, **given, **close, "public_rows": str(file), **more}


def fitted(task, table, labels, public, seed=None, **more):
    """The estimator with the parameters of a task."""
    model = FedSelClassifier(
        epsilon=float(task.recipe.epsilon), schema=task.schema, reg=0.01, random_state=seed,
        batch_fraction=1 / task.rounds_per_epoch, model=task.loss, **more,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return model.fit(table, labels, public_X=public)


@pytest.mark.parametrize(("classes", "loss"), [(2, "logistic"), (3, "logistic"), (2, "svm")])
def test_a_task_prepares_as_the_estimator_does(classes, loss, quick_path):
    task = task_of(**settings(quick_path, classes, loss=loss))
    model = fitted(task, *table_of(600, classes=classes), table_of(300, 7, classes)[0])
    begun = task.begin
    assert begun.preparation == model.preparation_
    assert begun.preparation.mixing.shape == (6, 6)
    assert begun.plan is None
    scale = task.preparing(begun).scale
    np.testing.assert_array_equal([scale.low, scale.high], model.feature_range_)
    for name in ("rho", "learning_rate", "averaging", "bases", "spread", "centre"):
        assert getattr(begun.recipe, name) == getattr(model.recipe_, name), name


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("classes", [2, 3])
def test_devices_learn_what_the_estimator_learns(classes, quick_path):
    """On the same words; the service is started anew in the middle, without its file of rows."""
    clients, batch, seed = 200, 20, 3
    task = task_of(
        **settings(quick_path, classes, clients=clients, rounds_per_epoch=clients // batch,
                   close_after={"reports": batch}, limits=FREE)
    )  # fmt: skip
    (table, labels), public = table_of(clients, classes=classes), table_of(300, 7, classes)[0]
    expected = fitted(task, table, labels, public, seed)
    recipe, schema = task.begin.recipe, task.schema
    training = Training(recipe.build(), float(recipe.learning_rate), batch, seed=seed)
    order, ends = training.schedule(np.arange(clients), clients, 0)
    policy = Policy(recipe.charge, recipe.charge, [recipe.solution], [recipe.dim])
    records = [
        {"what": str(labels[i]), **{name: column[i] for name, column in table.items()}}
        for i in range(clients)
    ]
    cohorts = list(enumerate(np.split(order, ends[:-1])))
    for part in (cohorts[:4], cohorts[4:]):
        with running(task, quick_path / "service") as service:
            announced = Announcement.decode(json.dumps(service.get("/v1/task")).encode())
            for number, cohort in part:
                message = service.get("/v1/rounds/open/request")
                weights = service.get(f"/v1/rounds/{number}/weights")
                told = json.dumps(service.get(f"/v1/rounds/{number}/preparing"))
                pipeline = RecordPipeline.decode(told, schema.feature_count)
                for i in cohort.tolist():
                    suited = RawRecords(records[i : i + 1]).suited(announced.schema, announced.loss)
                    device = Client(policy, quick_path / str(i), create=True)
                    device._entropy = stream(seed, 0, i)
                    update = suited.update(number, pipeline, recipe.dim)
                    assert service.send(device.answer(message, weights, update))[0] == 200
                service.wait_for(number + 1)
            learnt = np.frombuffer(service.get("/v1/model"), "<f8")
            model = Model.decode(json.dumps(service.get("/v1/model.json")).encode())
    assert pipeline.preparation == expected.preparation_
    np.testing.assert_allclose(learnt, expected._model.weights, rtol=1e-9)
    assert np.abs(learnt).max() > 0
    others, _ = table_of(50, 5, classes)
    np.testing.assert_array_equal(model.predict(others), expected.predict(others))


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_device_takes_a_matrix_that_is_long(quick_path):
    """120 features: 15,000 numbers, three times what devices read of bounds alone."""
    rows = np.random.default_rng(0).normal(0.5, 0.1, (50, 120))
    np.savez(quick_path / "rows.npz", X=np.clip(rows, 0, 1))
    file = str(quick_path / "rows.npz")
    task = task_of(
        **OWN, features=120, feature_range=[0, 1], public_rows=file, clients=2, epsilon=4.0,
        rounds_per_epoch=1, close_after={"reports": 2}, invitations="open", limits=FREE,
    )  # fmt: skip
    policy = Policy(4.0, 4.0, ["FJ"], [121])

    def take_part(number):
        client = Client(policy, quick_path / str(number), create=True)
        return join(service.address, client, RawRecords(rows[number:][:1], [1]), every=0.05)

    with running(task, quick_path / "service") as service, ThreadPoolExecutor(2) as pool:
        assert len(json.dumps(service.get("/v1/rounds/open/preparing"))) > 250_000
        outcomes = list(pool.map(take_part, range(2)))
    assert [outcome.accepted for outcome in outcomes] == [1, 1]


def test_beyond_a_size_devices_get_no_matrix(quick_path):
    for features, mixed in ((LARGEST_SENT - 1, True), (LARGEST_SENT, False)):
        rows = np.random.default_rng(0).random((12, features))
        np.savez(quick_path / "rows.npz", X=rows)
        file = str(quick_path / "rows.npz")
        prepared = task_of(
            **OWN, features=features, feature_range=[0, 1], public_rows=file
        ).begin.preparation
        assert (prepared.mixing is not None) == mixed
        np.testing.assert_allclose(prepared.centre, rows.mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_kinds_of_files(ending, quick_path):
    settings_ = settings(quick_path)
    expected = task_of(**settings_).begin.preparation
    table, file = table_of(300, seed=7)[0], quick_path / f"others{ending}"
    if ending == ".csv":
        written(file, {name: table[name] for name in reversed(table)})
    elif ending == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(table), file)
    else:
        np.savez(file, X=Schema.of(settings_["schema"]).encode(table))
    assert task_of(**settings_ | {"public_rows": str(file)}).begin.preparation == expected


def test_a_file_of_a_task_is_beside_it(quick_path):
    np.savez(quick_path / "rows.npz", X=np.random.default_rng(0).random((40, 2)))
    text = 'epsilon=4\nfeatures=2\nfeature_range=[0,1]\nclients=50\npublic_rows="rows.npz"\n'
    (quick_path / "churn.toml").write_text(f"{text}close_after={{reports=10}}")
    assert Task.load(quick_path / "churn.toml").begin.given.rows == 40


def test_page_and_announcement_say_whom_the_guarantee_leaves_out(quick_path):
    with_rows = task_of(**settings(quick_path))
    without = task_of(**settings(quick_path) | {"public_rows": None})
    for task, said in ((with_rows, True), (without, False)):
        view = RunSnapshot(task, task.begin, [(0.0, None)])
        told = json.loads(view.task_text.plain)["public_rows"]
        assert ("300 of them" in told and "nobody in them is protected" in told) == said
        assert ("<dt>Public rows</dt><dd>300 of them" in task_facts(view)) == said


def test_a_run_keeps_its_rows(quick_path):
    given = settings(quick_path)
    store = open_store(str(quick_path / "store"))
    begun = opened(task_of(**given), store)
    again = opened(task_of(**given), store)
    assert again.run == begun.run
    assert Checkpoint.decode(begun.encode()).preparation == begun.preparation
    assert again.preparation == begun.preparation
    # The matrix may have other last bits where another machine computes it: the run keeps its own.
    file = quick_path / "rows.csv"
    file.write_text(file.read_text().replace("green", "blue"))
    assert opened(task_of(**given), store).run == begun.run
    with pytest.raises(InvalidArgument, match=r"public_rows of .*None.*300 rows \(SHA-256"):
        opened(task_of(**given | {"public_rows": None}), store)
    written(file, table_of(300, seed=8)[0])
    with pytest.raises(InvalidArgument, match=r"public_rows of .*300 rows .*as in the checkpoint"):
        opened(task_of(**given), store)
    store.close()


def _npz(**arrays):
    def write(folder):
        np.savez(folder / "wrong.npz", **arrays)
        return folder / "wrong.npz"

    return write


def _csv(**columns):
    return lambda folder: written(folder / "wrong.csv", columns)


def _text(text):
    def write(folder):
        (folder / "wrong.csv").write_text(text)
        return folder / "wrong.csv"

    return write


ROWS = np.random.default_rng(0).random((20, 5))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (_csv(a=[1] * 20, kind=["x"] * 20), "wrong.csv without b.*columns of the task.*a, kind"),
        (_npz(X=ROWS[:, :4]), r"\(20, 4\).*\(m, 5\)"),
        (_npz(X=np.column_stack([ROWS, ROWS[:, 0]])), r"\(20, 6\).*\(m, 5\).*no label"),
        (_npz(X=np.where(ROWS > 0.5, np.nan, ROWS)), "NaN or infinity in column 0.*leave out"),
        (_npz(X=ROWS[:9]), "9 rows.*at least 10"),
        (_npz(Y=ROWS), "an array X"),
        (_npz(X=np.array(["a"])), "of numbers"),
        (_text("a,b\n1\n"), "2 columns"),
        (_text(""), "CSV file"),
        (lambda folder: folder / "none.csv", r"none.csv.*No such file"),
        (lambda folder: folder / "rows.json", r"\.csv, \.parquet or \.npz"),
    ],
)
def test_wrong_rows_are_refused_before_anything_is_served(write, words, quick_path):
    given = settings(quick_path) | {"public_rows": str(write(quick_path))}
    with pytest.raises(InvalidArgument, match=f"^public_rows.*{words}"):
        task_of(**given)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"public_mean": {"a": 0.1}}, "public_mean = .*omitted with public_rows"),
        ({"centre": 0.1}, "centre = 0.1.*public rows already give it"),
        ({"schema": None, "dim": 8}, "public_rows = .*omitted without features"),
        ({"public_rows": 3}, "public_rows = 3: .*name of a file"),
    ],
)
def test_what_does_not_go_with_them(changes, words, quick_path):
    with pytest.raises(InvalidArgument, match=words):
        task_of(**settings(quick_path) | changes)


def test_columns_without_names_may_hold_no_label(quick_path):
    file = written(
        quick_path / "rows.csv", dict(zip("abcdef", [*ROWS.T.tolist(), ROWS[:, 0]], strict=True))
    )
    given = {**OWN, "feature_range": [0, 1], "public_rows": str(file)}
    task_of(**given, features=6)
    with pytest.raises(InvalidArgument, match=r"rows.csv with 6 columns.*5 columns.*no label"):
        task_of(**given, features=5)


# --- a model to start with ----------------------------------------------------------------------


def public_model(folder, classes=2, **more):
    """A model that was trained on public records without privacy, in a file."""
    schema = {"columns": COLUMNS, "classes": LABELS[classes], "label": "what"}
    table, labels = table_of(2000, seed=9, classes=classes)
    own = {"solution": "NP", "epsilon": None, "schema": schema, "unit_norm": True, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model = FedSelClassifier(**own).fit(table, labels, public_X=table_of(300, 7, classes)[0])
    model.save_model(folder / "start.json")
    return model


@pytest.mark.parametrize("classes", [2, 3])
def test_a_model_brings_its_weights_and_its_preparation(classes, quick_path):
    model = public_model(quick_path, classes)
    given = settings(quick_path, classes) | {"public_rows": None}
    task = task_of(**given, start=str(quick_path / "start.json"))
    begun, (table, _) = task.begin, table_of(50, 4, classes)
    assert begun.preparation == model.preparation_
    assert begun.recipe.centre == begun.recipe.spread == 0
    model_now = RunSnapshot(task, begun, [(0.0, None)])._trained()
    np.testing.assert_array_equal(model_now.predict(table), model.predict(table))
    store = open_store(str(quick_path / "store"))
    opened(task, store)
    public_model(quick_path, classes, feature_range=None, fit_intercept=True, reg=1e-3)
    assert opened(task_of(**given, start=task.start), store).run  # prepares alike
    with pytest.raises(InvalidArgument, match=r"start of .*as in the checkpoint"):
        opened(task_of(**given), store)
    store.close()


def of_schema(**changes):
    """The model of another schema."""
    given = {"columns": COLUMNS, "classes": LABELS[2], **changes}
    schema = Schema.of_dict({k: v for k, v in given.items() if v is not None})
    loss = "squared" if schema.target_range else "logistic"
    pipeline = RecordPipeline(schema.scale, Preparation.plain(schema.feature_count))
    weights = np.zeros(schema.dim)
    return Model(weights, schema, loss, None if schema.target_range else schema.classes, pipeline)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (of_schema(columns={"a": [-4, 4]}), "a model of a'.*task's columns.*a, b, c, kind"),
        (of_schema(columns=COLUMNS | {"a": [0, 4]}), "with their bounds"),
        (of_schema(classes=LABELS[3]), "blue.*no.*yes"),
        (of_schema(classes=["yes", "no"]), "yes.*no"),
        (of_schema(classes=None, target_range=[0, 1]), r"\(0.0, 1.0\)"),
        (Model(np.zeros(6)), "without a schema.*npy"),
    ],
)
def test_a_model_of_something_else_is_refused(model, words, quick_path):
    model.save(quick_path / "other.json")
    given = settings(quick_path) | {"public_rows": None}
    with pytest.raises(InvalidArgument, match=f"^start.*{words}"):
        task_of(**given, start=str(quick_path / "other.json"))


def test_what_does_not_go_with_a_model(quick_path):
    public_model(quick_path)
    given = settings(quick_path) | {"start": str(quick_path / "start.json")}
    with pytest.raises(InvalidArgument, match=r"public_rows = .*beside a start model"):
        task_of(**given)
    given["public_rows"] = None
    for name, value in (("centre", 0.1), ("spread", 0.1), ("public_mean", {"a": 0.1})):
        with pytest.raises(InvalidArgument, match=f"{name} = .*beside a start model"):
            task_of(**given, **{name: value})
    with pytest.raises(InvalidArgument, match=r"start = 'a model': .*no schema"):
        task_of(**given | {"schema": None, "dim": 8})
    (quick_path / "start.json").write_text("{}")
    with pytest.raises(InvalidArgument, match=r"start = .*a model file of fedsel"):
        task_of(**given)


def test_a_model_without_bounds_of_the_task_or_without_intercept(quick_path):
    rows = np.random.default_rng(0).random((300, 3))
    public_rows = {"features": 3, "feature_range": [0, 2], **OWN}
    for range_, intercept, words in (
        ((0, 1), True, "other bounds"),
        ((0, 2), False, "without intercept"),
        ((0, 2), True, None),
    ):
        model = FedSelClassifier(solution="NP", feature_range=range_, fit_intercept=intercept)
        model.fit(rows, rows[:, 0] > 0.5).save_model(quick_path / "start.json")
        given = {**public_rows, "start": str(quick_path / "start.json")}
        if words is None:
            assert task_of(**given).begin.preparation == model.preparation_
        else:
            with pytest.raises(InvalidArgument, match=f"start.*{words}"):
                task_of(**given)


def test_a_regression_starts_with_a_model_too(quick_path):
    rows = np.random.default_rng(0).random((300, 3))
    model = FedSelRegressor(solution="NP", feature_range=(0, 1), target_range=(0, 3))
    model.fit(rows, rows.sum(axis=1)).save_model(quick_path / "start.json")
    task = task_of(
        **OWN, features=3, feature_range=[0, 1], target_range=[0, 3], loss="squared",
        start=str(quick_path / "start.json"),
    )  # fmt: skip
    assert task.begin.preparation == model.preparation_
    np.testing.assert_array_equal(task.begin.state.weights, model._model.weights)
