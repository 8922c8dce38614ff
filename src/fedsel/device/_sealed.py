"""What a device checks of a run whose reports leave sealed: the keys, and what was signed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fedsel.device._connection import Ended, Ending
from fedsel.device._policy import Policy
from fedsel.wire import Announcement, InvalidMessage, SignedRound

FRESH_SECONDS = 3600
"""How old the signature of a round may be: a relay must not hold devices at an earlier round."""


def check_sealed(policy: Policy, task: Announcement) -> None:
    """End where reports would leave in another way than the policy says, before one is paid for."""
    if task.shuffle is None:
        if policy.server_key is not None:
            detail = "its policy has a server_key, and this run takes no sealed reports"
            raise Ended(Ending.REFUSED, detail)
        return
    missing = []
    for name in ("server_key", "signing_key"):
        theirs, own = getattr(task.shuffle, name), getattr(policy, name)
        if own is None:
            missing.append(f'{name} = "{theirs}"')
        elif own != theirs:
            raise Ended(Ending.REFUSED, f"the run has another {name} than its policy")
    if missing:
        whose = "these are" if len(missing) > 1 else "that is"
        detail = f"its policy needs {' and '.join(missing)}, if {whose} the service's"
        raise Ended(Ending.REFUSED, f"reports of this run leave sealed: {detail}")


def check_signed(data: bytes, key: str, parts: Mapping[str, bytes]) -> None:
    """End unless the service has signed these parts together, and not long ago."""
    try:
        signed = SignedRound.verify(data, key)
    except InvalidMessage as error:
        raise Ended(Ending.REFUSED, f"the signature of the round is not right: {error}") from None
    for name, part in parts.items():
        if not signed.covers(**{name: part}):
            raise Ended(Ending.REFUSED, f"the service has not signed the {name} that came with it")
    age = time.time() - signed.time
    if abs(age) > FRESH_SECONDS:
        detail = f"its signature is {abs(age) / 3600:.0f} hours {'old' if age > 0 else 'ahead'}"
        raise Ended(Ending.UNREACHABLE, f"{detail}: is the clock of this device right?")
