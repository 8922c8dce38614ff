"""The page of a finding: it says all of it, and strange outputs do no harm."""

import pytest

from fedsel.auditing import audit_program
from fedsel.auditing.finding_page import finding_page, meaning
from tests.auditing.test_program import FEW


@pytest.mark.slow
def test_the_page_says_all_of_it_and_keeps_strange_outputs_harmless():
    def odd(x, entropy):
        return "<script>alert(1)</script>" if entropy.below(4) < 1 + 2 * x else "$plain$"

    found = audit_program(odd, inputs=[0, 1], claimed=0.5, **FEW)
    page = finding_page(found, target="odd.py:<b>odd", command="fedsel audit 'odd.py:<b>odd'")
    assert page.count("<script>") == 1
    assert "odd.py:&lt;b&gt;odd" in page
    for said in ("ε = 0.5 is refuted", "1.09861, exactly", "confidence 1 − 1e-9", "3/4"):
        assert said in page
    assert page.count("<figure>") == 2
    assert "http://" not in page
    assert "https://" not in page


def test_what_tells_nothing_apart_is_not_called_certainty():
    found = audit_program(lambda _, entropy: entropy.below(2), inputs=[0, 1], claimed=1.0, **FEW)
    assert meaning(found).startswith("The experiment cannot tell the two inputs apart")
    assert "at least" not in meaning(found)
