"""The central guarantee of a run beside its local one: both numbers, and who is trusted for which.

One place for every statement. Nobody need have shuffled: it says what a shuffler between devices
and server makes of the same reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from fedsel._internal.progress import note
from fedsel.mechanisms.central import DELTA, CentralGuarantee, add_up
from fedsel.mechanisms.central._guarantee import remembers
from fedsel.solutions import Privacy

TRUST_LOCALLY = "{local}: the device alone is trusted. It holds against everybody together."
TRUST_CENTRALLY = (
    "{central}: the shuffler is trusted as well, to forward neither names nor order nor times and"
    " not to work with the server; and so are {reports:,} clients of each round, to be honest. It"
    " holds against who sees only what the shuffler forwards. Without a shuffler it does not hold."
)
REPLACED = (
    "The central guarantee compares two runs that differ in the content of one client: whatever is"
    " seen is at most e^ε times as likely in one of them as in the other, plus δ."
)


@final
@dataclass(frozen=True)
class IfShuffled:
    """What reports would guarantee centrally, were those of each round shuffled.

    ``reports`` is how many the smallest round had, ``epochs`` how often a client has reported.
    """

    privacy: Privacy
    reports: int
    epochs: int
    delta: float = DELTA

    @classmethod
    def of(cls, privacy: Privacy, reports: int, epochs: int) -> IfShuffled | None:
        """None where there is no report, or none that a certificate covers."""
        certified = privacy.charge is not None and privacy.source is not None
        return cls(privacy, reports, epochs) if certified and reports and epochs else None

    @cached_property
    def guarantee(self) -> CentralGuarantee:
        """Of all epochs, added up: quick, and larger than what `central` composes."""
        if self.privacy.source is None:
            raise TypeError("a privacy without a source has no shuffled reports")
        with note("proving the central guarantee", 1) as tell:
            found = add_up(
                self.privacy.source, reports=self.reports, epochs=self.epochs, delta=self.delta
            )
            tell(1)
        return found

    def central(self, *, delta: float | None = None) -> CentralGuarantee:
        """Of all epochs, composed; several need dp_accounting."""
        return self.privacy.central(reports=self.reports, delta=delta, epochs=self.epochs)

    @property
    def local(self) -> float:
        """ε of the same reports by themselves, as a ledger charges them."""
        return float((self.privacy.charge or 0) * self.epochs)

    @property
    def epsilon(self) -> str:
        """The central ε and its δ in figures."""
        return f"central ε = {self.guarantee.epsilon:.4g} at δ = {self.delta:g}"

    @property
    def sentence(self) -> str:
        """Both numbers in one sentence."""
        return (
            f"If shuffled, {self.reports:,} reports or more of honest clients in a round:"
            f" {self.epsilon}, for who trusts the shuffler{self._epochs}."
            f" Else local ε = {self.local:.6g} is what holds, and nobody need be trusted for it."
        )

    @property
    def _epochs(self) -> str:
        if self.epochs == 1:
            return ""
        if self.privacy.source is not None and remembers(self.privacy.source):
            return (
                "; shuffling proves nothing more over several epochs, as clients keep what they"
                " have not sent"
            )
        return f"; {self.epochs} epochs added up, central() composes them to less"

    @property
    def facts(self) -> dict[str, str]:
        """A row of a page."""
        among = f"among {self.reports:,} honest reports or more of a round"
        return {"if shuffled": f"{self.epsilon}, {among}"}

    @property
    def trust(self) -> tuple[str, ...]:
        """Who must be trusted for which number."""
        local = f"For local ε = {self.local:.6g}"
        central = f"For {self.epsilon}"
        return (
            TRUST_LOCALLY.format(local=local),
            TRUST_CENTRALLY.format(central=central, reports=self.reports),
            REPLACED,
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON holds it."""
        return {
            "epsilon": self.guarantee.epsilon,
            "delta": self.delta,
            "reports": self.reports,
            "epochs": self.epochs,
            "local": self.local,
        }
