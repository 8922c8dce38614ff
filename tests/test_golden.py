"""What must not change: reports, charges, wire bytes and weights, as recorded at commit 76f1eda.

What begins with PE was recorded again when its law was computed in decimals: before, the law, and
so every draw from it, depended on the processor's exponential. Reports, certificates and bytes are
compared to the bit; the numbers of the baselines, which are floats, to 1e-9. Weights of simulations
are compared to a relative 1e-9: sums of reports are integers since then, so their last bits differ.
Noise and rates are compared to 1e-12: those of a projection come from the linear algebra that numpy
was built with. What the front ends make of them (`frontends.json`) is compared to 1e-7, and to 1e-4
where torch rounds; accuracies of experiments exactly.
"""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import Aggregator, Recipe, Reports, solution
from fedsel._internal.models import MulticlassModel
from fedsel._internal.random import stream
from fedsel.experiments import CatalogueSource, Spec, override
from fedsel.simulation import EvaluationSet, Population, Training, train, train_vectors
from fedsel.simulation._clients import MulticlassClients
from fedsel.sklearn import FedSelClassifier
from fedsel.wire import Request, check_sendable

GOLDEN = Path(__file__).parent / "golden"


def load(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


REPORTS, CERTIFICATES, WIRE = load("reports"), load("certificates"), load("wire")
VECTORS = np.array(REPORTS["vectors"], dtype=np.float32)
NOTHING = np.zeros(VECTORS.shape[2], dtype=np.float32)


def as_recorded(note):
    """The note in the words of that time."""
    return note.replace("is sent without noise", "leaves as it is")


def said(report):
    return [list(pair) for pair in report.pairs()[0]]


@pytest.mark.parametrize("case", list(REPORTS["reports"]))
def test_reports_of_devices(case):
    name, epsilon = case.rsplit(" ", 1)
    made = solution(name, epsilon=float(epsilon), **REPORTS["parameters"])
    expected = REPORTS["reports"][case]
    sent = []
    for client in range(VECTORS.shape[1]):
        residual = NOTHING
        for epoch in range(len(VECTORS)):
            report, residual = made.in_round(2 * epoch + 1).encode(
                VECTORS[epoch, client], residual, stream(3, epoch, client)
            )
            sent.append(said(report))
    if made.mechanism.certified:
        assert sent == expected["sent"]
    else:
        np.testing.assert_allclose(sent, expected["sent"], rtol=1e-9, atol=1e-9)
    assert residual.tolist() == expected["residual"]
    later = made.in_round(5)
    reports = [later.encode(v, NOTHING, stream(4, 0, c))[0] for c, v in enumerate(VECTORS[0])]
    np.testing.assert_allclose(
        later.decode(Reports.of(reports)), expected["mean"], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("case", list(CERTIFICATES))
def test_certificates_and_charges(case):
    name, dim, epsilon, epochs = case.split()
    expected = CERTIFICATES[case]
    given = {"mu": 0.1, "k": 0.3, "rho": 0.4, "ratio": 0.5, "words": 32}
    made = solution(name, epsilon=float(epsilon), dim=int(dim), epochs=int(epochs), **given)
    privacy, says = made.privacy, made.alphabet
    ratio = None
    if privacy.ratio is not None:
        ratio = hashlib.sha256(str(privacy.ratio).encode()).hexdigest()[:16]
    alphabet = None
    if not says.plain:
        alphabet = [says.slots, says.symbols, says.picks, says.abstains, says.bound]
    assert {
        "ratio": ratio,
        "charge": None if privacy.charge is None else str(privacy.charge),
        "per_report": repr(privacy.per_report),
        "total": repr(privacy.total),
        "within": privacy.within_budget,
        "certified": privacy.certified,
        "bits": made.bits,
        "note": as_recorded(privacy.note),
        "alphabet": alphabet,
        "size": pytest.approx(made.noise, rel=1e-12),
        "accumulates": made.accumulates,
        "inside": made.rate_inside,
        "server": made.decays_at_server,
    } == expected


@pytest.mark.parametrize("name", list(WIRE))
def test_bytes_on_the_wire(name):
    expected = WIRE[name]
    given = {**REPORTS["parameters"], "learning_rate": 0.3}
    recipe = Recipe(name, epsilon=Fraction(9, 2), **given)
    if "error" in expected:
        with pytest.raises(ValueError, match="a private solution"):
            check_sendable(recipe)
        return
    request = Request(bytes(range(16)), 1, 4, check_sendable(recipe))
    assert request.encode().hex() == expected["request"]
    assert Request.decode(request.encode()) == request
    assert str(recipe.charge) == expected["charge"]
    made = recipe.build().in_round(4)
    for client, report in enumerate(expected["reports"]):
        sent, _ = made.encode(VECTORS[1, client], NOTHING, stream(5, 1, client))
        assert request.format.encode(4, sent).hex() == report


WEIGHTS = load("weights")
X = np.array(WEIGHTS["X"], dtype=np.float32)
Y = np.array(WEIGHTS["y"], dtype=np.int8)
PARAMETERS = WEIGHTS["parameters"]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", list(WEIGHTS["engine"]))
def test_weights_of_the_simulator(case):
    name, kind = case.rsplit(" ", 1)
    made = solution(name, dim=X.shape[1], **PARAMETERS)
    people, loss, changes = Population(X, Y), "logistic", {"reg": 0.01}
    if kind == "average":
        loss, changes = "svm", {"averaging": 3.0, "reg": 0.02}
    elif kind == "sparse":
        people = Population(csr_array(X), Y)
        changes = {"dropout": 0.3, "rounds": 7, "averaging": 1.0}
    elif kind == "groups":
        order, starts = np.arange(len(X))[::-1].copy(), np.arange(0, len(X) + 1, 3)
        people, changes = Population(X, Y, order, starts), {"batch": 7}
    given = {"batch": 13, "seed": 4, **changes}
    history = train(Training(made, 0.3, **given), people, EvaluationSet(X, Y), loss=loss)
    expected = WEIGHTS["engine"][case]
    close(history.weights, expected["weights"])
    if "accuracy" in expected:
        assert history.accuracy == expected["accuracy"]


@pytest.mark.parametrize("name", list(WEIGHTS["vectors"]))
def test_weights_of_three_classes(name):
    classes = np.array(WEIGHTS["classes"])
    made = solution(name, dim=3 * X.shape[1], **PARAMETERS)
    own = 0.0 if made.decays_at_server else 0.01
    source = MulticlassClients(Population(X, classes), 3, MulticlassModel("logistic", own))
    training = Training(made, 0.2, 13, reg=0.01, seed=6, averaging=2.0)
    history = train_vectors(training, source, np.full(made.dim, 0.01))
    close(history.weights, WEIGHTS["vectors"][name])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WEIGHTS["aggregator"]))
def test_weights_of_the_aggregator(tmp_path, name):
    recipe = Recipe(name, dim=X.shape[1], learning_rate=0.4, averaging=0.0, **PARAMETERS)
    start = np.linspace(-1, 1, X.shape[1])
    server = Aggregator(recipe, tmp_path, weights=start, rounds_per_epoch=2)
    nothing = np.zeros(X.shape[1], dtype=np.float32)
    for t in range(3):
        request = Request.decode(server.request())
        made = recipe.build().in_round(t)
        for client, (x, y) in enumerate(zip(X, Y, strict=True)):
            report, _ = made.encode(x * np.float32(0.3 * y), nothing, stream(8, t, client))
            server.receive(client, request.format.encode(t, report))
        server.step()
    close(server.weights, WEIGHTS["aggregator"][name])


def test_a_checkpoint_of_version_1_goes_on(tmp_path):
    (tmp_path / "checkpoint.bin").write_bytes((GOLDEN / "checkpoint-v1.bin").read_bytes())
    recipe = Recipe("RJ", dim=X.shape[1], learning_rate=0.4, averaging=0.0, **PARAMETERS)
    server = Aggregator(recipe, tmp_path, rounds_per_epoch=2)
    assert server.round == 3
    assert server.model.tolist() == WEIGHTS["aggregator"]["RJ"]
    server.step()
    server.close()
    assert Aggregator(recipe, tmp_path, rounds_per_epoch=2).finished


FRONT, CELLS = (load("frontends")[part] for part in ("front", "cells"))
RECORDS = np.vstack([np.tanh(X.astype(float))] * 20)
LABELS, CLASSES = np.tile(Y, 20), np.tile(WEIGHTS["classes"], 20)
# What was automatic then: now the rules are others.
AUTOMATIC = {
    "default": {"rho": 0.4, "averaging": 3.0},
    "svm": {"rho": 0.4, "averaging": 3.0},
    "three": {"rho": 0.8 * (2 / 3) ** 0.5, "averaging": 3.0},
    "J": {"averaging": 3.0},
    "NP": {"averaging": 3.0, "unit_norm": False},
}
SKLEARN = {
    "default": {"solution": "RJ", "epsilon": 2.0},
    "svm": {"solution": "RJ", "epsilon": 2.0, "model": "svm", "epochs": 2},
    "three": {"solution": "RJ", "epsilon": 4.0},
    "PS-PM": {"epsilon": 4.0, "solution": "PS-PM", "epochs": 2, "momentum": 0.3, "mu": 0.1},
    "PM-RP": {"epsilon": 4.0, "solution": "PM-RP"},
    "HM": {"epsilon": 4.0, "solution": "HM"},
    "J": {"epsilon": 4.0, "solution": "J", "rho": None},
    "last": {"solution": "RJ", "epsilon": 4.0, "learning_rate": 0.5},
    "NP": {"solution": "NP"},
}
TORCH = {
    "PS-PM": {"solution": "PS-PM", "epsilon": 4.0},
    "RJ": {"solution": "RJ", "epsilon": 4.0, "rho": 0.5, "averaging": 3.0, "reg": 0.01},
    "NP": {"solution": "NP"},
    "PM-O": {
        "solution": "PS-PM-O",
        "epsilon": 4.0,
        "epochs": 2,
        "learning_rate": 0.3,
        "momentum": 0.5,
        "clip_scale": {"bias": 0.5},
    },
}


def test_every_front_end_that_was_recorded_is_compared():
    assert set(FRONT) == {*(f"sklearn {n}" for n in SKLEARN), *(f"torch {n}" for n in TORCH)}


@pytest.mark.filterwarnings("ignore::fedsel.errors.SeededNoiseWarning")
@pytest.mark.parametrize("case", list(SKLEARN))
def test_coefficients_of_the_estimator(case):
    expected = FRONT[f"sklearn {case}"]
    given = dict(SKLEARN[case])
    if case in AUTOMATIC:
        given |= {**AUTOMATIC[case], "learning_rate": expected["rate"]}
    made = FedSelClassifier(feature_range=(-1, 1), random_state=5, **given)
    made.fit(RECORDS, CLASSES if case == "three" else LABELS)
    np.testing.assert_allclose(made.coef_, expected["coef"], rtol=1e-7)
    np.testing.assert_allclose(made.intercept_, expected["intercept"], rtol=1e-7)
    assert made.learning_rate_ == pytest.approx(expected["rate"], rel=1e-12)
    assert made.solution_.name == expected["solution"]


@pytest.mark.filterwarnings("ignore::fedsel.errors.SeededNoiseWarning")
@pytest.mark.xdist_group("torch")
@pytest.mark.parametrize("case", list(TORCH))
def test_weights_of_the_trainer(case):
    torch = pytest.importorskip("torch", reason="needs the extra fedsel[torch]")
    from fedsel.torch import FederatedTrainer

    torch.manual_seed(0)
    expected = FRONT[f"torch {case}"]
    # The defaults of then: now they are those of the recommended recipe.
    given = {"mu": 0.1, "rho": None, "averaging": 0.0, "bases": None}
    given |= {"learning_rate": expected["rate"], **TORCH[case]}
    trainer = FederatedTrainer(torch.nn.Linear(X.shape[1], 3), seed=3, batch=100, **given)
    trainer.fit(torch.tensor(RECORDS, dtype=torch.float32), torch.tensor(CLASSES))
    np.testing.assert_allclose(trainer.history.weights, expected["weights"], rtol=1e-4)
    assert trainer.rate == pytest.approx(expected["rate"], rel=1e-12)


@pytest.mark.parametrize("case", list(CELLS))
def test_rows_of_experiments(case):
    cells = list(override(Spec(), CELLS[case]["change"]).cells())
    for cell, row in zip(cells, CELLS[case]["rows"], strict=True):
        found = cell.combine([cell.part(i, CatalogueSource()) for i in range(cell.parts)])
        # Parameters and measures that came later.
        expected = {**dict.fromkeys(("bases", "spread", "centre"), "auto"), **row}
        for name in ("chosen", "balanced", "auc", "log_loss"):
            found.pop(name, None)
        ours, theirs = found.pop("runs", []), expected.pop("runs", [])
        found["privacy"] = as_recorded(found["privacy"])
        assert found == expected
        for run, recorded in zip(ours, theirs, strict=True):
            assert run[:3] == recorded[:3]
            assert run[3] == pytest.approx(recorded[3], rel=1e-9)
