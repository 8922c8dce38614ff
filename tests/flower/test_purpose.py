"""Purpose and recipient over Flower: from the strategy to each node's ledger, and the statement."""

import pytest

from fedsel import InvalidArgument
from fedsel.device import Intent, Ledger
from fedsel.flower import FedSelStrategy, NoReports
from fedsel.flower._node import Node
from fedsel.statements._runs import TRUST_ON_FLOWER
from tests.flower.messages import config, model
from tests.flower.test_strategy import Network, strategy
from tests.statements.support import Text

pytestmark = pytest.mark.usefixtures("flower_identity")
STATED = {"purpose": "Better suggestions", "recipient": "Example Ltd"}


def network(folder, **policy):
    grid = Network(folder, range(1, 5))
    for _, own in grid.apps.values():
        own |= {f"fedsel-{name}": value for name, value in policy.items()}
    return grid


def test_nodes_that_insist_answer_who_tells_them(tmp_path):
    grid = network(tmp_path, **{"require-purpose": True, "recipients": "Another Ltd, Example Ltd"})
    made = strategy(tmp_path / "server", **STATED)
    made.start(grid, model())
    for node in range(1, 5):
        history = Ledger(tmp_path / f"node-{node}").inspect()
        assert list(history.intents.values()) == [Intent(**STATED)]
        assert history.spent == 4


@pytest.mark.parametrize("stated", [{}, {"purpose": "Better suggestions"}, {"recipient": "Else"}])
def test_nodes_that_insist_refuse_who_does_not(tmp_path, stated):
    grid = network(tmp_path, **{"require-purpose": True, "recipients": "Example Ltd"})
    made = strategy(tmp_path / "server", **stated)
    with pytest.raises(NoReports, match="does not allow the purpose or the recipient"):
        made.start(grid, model())
    assert set(made.refusals) == {"PURPOSE"}
    assert {Ledger(tmp_path / f"node-{n}").read().spent for n in range(1, 5)} == {0}


def test_a_run_goes_on_with_its_purpose_alone(tmp_path):
    grid = network(tmp_path)
    strategy(tmp_path / "server", **STATED).start(grid, model(), num_rounds=1)
    with pytest.raises(
        InvalidArgument, match=r"^purpose = 'Other': must be .*, as in the checkpoint"
    ):
        strategy(tmp_path / "server", **{**STATED, "purpose": "Other"}).start(grid, model())
    made = strategy(tmp_path / "server", **STATED)
    made.start(grid, model())
    assert [r.reports for r in made.history.rounds] == [4, 4]


def test_a_wrong_purpose_is_named_before_nodes_are_there():
    with pytest.raises(InvalidArgument, match=r"^purpose = "):
        FedSelStrategy(epsilon=1.0, nodes=3, purpose="two\nlines")


def test_the_statement_of_a_run(tmp_path):
    made = strategy(tmp_path / "server", **STATED)
    with pytest.raises(InvalidArgument, match="started"):
        _ = made.statement
    made.start(network(tmp_path), model())
    statement = made.statement
    assert (statement.per_report, statement.released, statement.reports) == (2, 4, 8)
    assert [float(e.released) for e in statement.epochs] == [2.0, 4.0]
    assert float(statement.released) == made.history.rounds[-1].epsilon
    text = Text(statement.to_html()).text
    for words in (*STATED.values(), *TRUST_ON_FLOWER, "at most 98.2 % certain"):
        assert words in text


def test_epochs_without_reports_release_nothing(tmp_path):
    grid = network(tmp_path)
    for _, own in grid.apps.values():
        own["fedsel-lifetime"] = 2.0  # enough for one of the two epochs
    made = strategy(tmp_path / "server")
    made.start(grid, model())
    assert (made.statement.released, made.statement.planned) == (2, 4)
    assert made.statement.to_dict()["refusals"] == {"EXHAUSTED": 4}
    assert "does not suffice" in Text(made.statement.to_html()).text


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({"require-purpose": True}, {"require_purpose": True}),
        ({"recipients": "A, B"}, {"recipients": ("A", "B")}),
        ({"purposes": "A study"}, {"purposes": ("A study",)}),
    ],
)
def test_a_nodes_own_policy(given, policy):
    own = Node.of(config("/store", **given)).policy
    assert {name: getattr(own, name) for name in policy} == policy
    with pytest.raises(InvalidArgument, match=r"^require_purpose = 'yes'"):
        Node.of(config("/store", **{"require-purpose": "yes"}))
