"""What the dashboard proves, and that it composes epochs where it can."""

import json
from dataclasses import replace

import pytest

from fedsel._internal.display import upper_bound
from fedsel._internal.extras import MissingExtra
from fedsel.mechanisms.central import CentralGuarantee, amplify
from fedsel.service import _proofs as proving
from fedsel.service._dashboard import guarantees
from fedsel.service._proofs import Proofs
from fedsel.wire import CloseRule, encode_recipe
from tests.service.support import (
    task_of,
    wait_until,
)
from tests.service.test_dashboard import far_on

pytestmark = pytest.mark.xdist_group("processes")


@pytest.mark.slow
def test_what_is_proved_is_what_the_library_proves():
    """In a process of its own: the same bounds as by hand."""
    recipe, rule = task_of().begin.recipe, CloseRule(reports=40, seconds=60.0)
    proofs = Proofs(recipe, rule)
    view = far_on(3, close_after={"reports": 40, "seconds": 60.0})
    assert "being computed" in guarantees(view, proofs)
    proofs.begin()
    wait_until(lambda: proofs.over)
    solution = recipe.build()
    assert proofs.found == {
        "influence": vars(solution.influence),
        "central": vars(amplify(solution, reports=40, delta=1e-6)),
    }
    text = guarantees(view, proofs)
    assert f"ε = {upper_bound(proofs.found['central']['epsilon'])}, δ = 10⁻⁶" in text
    assert "only if a shuffler stands between" in text
    assert f"at most {upper_bound(solution.influence.norm / 40)}" in text
    stopped = Proofs(recipe, rule)
    stopped.begin()
    stopped.stop()
    assert stopped.over


def test_epochs_are_composed_where_that_is_installed(monkeypatch, capsys):
    recipe = task_of(epochs=3).begin.recipe
    question = {"recipe": encode_recipe(recipe).hex(), "reports": 5, "epochs": 3}
    one = CentralGuarantee(1.5, 1e-6, 5, 2.0)
    monkeypatch.setattr(proving, "amplify", lambda *_, **how: replace(one, **_known(how)))
    monkeypatch.setattr(proving, "compose", lambda *_, **how: replace(one, **_known(how)))
    proving.answer(question)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [{"central": vars(one)}, {"composed": vars(replace(one, epochs=3))}]

    def missing(*_, **how):
        raise MissingExtra("composition: dp_accounting is missing")

    monkeypatch.setattr(proving, "compose", missing)
    proving.answer(question)
    assert len(capsys.readouterr().out.splitlines()) == 2
    view, proofs = far_on(3, epochs=3), Proofs(recipe, CloseRule(reports=5))
    proofs.found, proofs.over = lines[0] | lines[1], True
    assert "fedsel[accounting]" in guarantees(view, proofs)
    proofs.found |= lines[2]
    assert "in each of 3 epochs ε = 1.5" in guarantees(view, proofs)


def _known(how):
    return {name: how[name] for name in ("delta", "reports", "epochs") if name in how}


def test_no_number_of_reports_is_no_central_guarantee():
    view = far_on(3, close_after={"seconds": 60.0})
    proofs = Proofs(view.state.recipe, view.task.close_after)
    assert "promises no number of reports" in guarantees(view, proofs)
    proofs.over = True  # without an answer: it could not be computed
    assert "being computed" not in guarantees(view, proofs)
