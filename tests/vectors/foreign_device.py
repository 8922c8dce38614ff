"""The rest of a client written from SPEC.md alone: requests, charges, policy and ledger.

What is durable and exclusive about a ledger is left out: this one is a few lists in memory.
"""

import hashlib
import math
import struct
import unicodedata
from decimal import Decimal, localcontext
from fractions import Fraction

from tests.vectors import foreign, foreign_blocks, foreign_fresh, foreign_public
from tests.vectors.foreign_windows import added, concerns, held, limits_of, time_of

SELECTIONS = ("PE-published", "EXP", "PE", "PS")
PRIVATE = {
    "J",
    "UJ",
    "RJ",
    "FJ",
    "RC",
    "BR",
    *(f"{a}{v}{b}" for v in foreign.VALUES for a, b in (("", ""), ("", "-RP"), ("RS-", ""))),
    *(f"{s}-{v}{x}" for s in SELECTIONS for v in foreign.VALUES for x in ("", "-C", "-O", "-C-O")),
}
NOT_PRIVATE = {
    *("NP", "NP-RS", "NP-K", "RS", "PrivUnit", "Duchi-L2", "SignDS"),
    *(f"{s}{x}" for s in SELECTIONS for x in ("", "-O")),
}
HEAD, RECIPE = "<4sB16sII", "<24sQQQIdB8sdddQddI"


class Refused(Exception):
    """With the reason as its only argument."""


# --- section 2 -------------------------------------------------------------------------------


def parse(data, visible, marks):
    """What a request says: version, run, epoch, round, texts and recipe."""
    if len(data) > 456:
        raise Refused("MALFORMED")
    if data[:4] == b"FSRQ" and len(data) > 4 and data[4] not in (1, 2, 3):
        raise Refused("VERSION")
    try:
        return _parsed(data, visible, marks)
    except (ValueError, struct.error, IndexError):
        raise Refused("MALFORMED") from None


def wanted(condition):
    if not condition:
        raise ValueError


def _parsed(data, visible, marks):
    magic, version, run, epoch, number = struct.unpack_from(HEAD, data)
    wanted(magic == b"FSRQ")
    rest, texts = data[29:], ["", ""]
    if version == 3:
        for place, most in enumerate((200, 100)):
            wanted(rest[0] <= most and len(rest) > rest[0])
            texts[place] = rest[1 : 1 + rest[0]].decode("utf-8")
            check_text(texts[place], visible, marks)
            rest = rest[1 + rest[0] :]
        wanted(any(texts))
    wanted(len(rest) in {1: (121,), 2: (125,), 3: (121, 125)}[version])
    name, top, bottom, dim, epochs, mu, kind, k, *numbers = struct.unpack_from(RECIPE, rest)
    clip, momentum, ratio, seed, rate, rho, codewords = numbers
    bases = struct.unpack("<I", rest[121:])[0] if len(rest) > 121 else None
    stem = name.rstrip(b"\0").decode("ascii")
    wanted(stem in PRIVATE | NOT_PRIVATE)
    wanted(0 < dim <= 2**32 and 0 < epochs and epoch < epochs)
    wanted(bottom and 0 < top <= 500 * bottom and math.gcd(top, bottom) == 1)
    wanted(0 <= mu < 1 and 0 < ratio <= 1 and math.isfinite(momentum))
    wanted(all(x > 0 and math.isfinite(x) for x in (clip, rate)))
    nothing = struct.pack("<d", rho) == bytes(8)
    wanted(nothing or (rho > 0 and math.isfinite(rho)))
    wanted(bases is None or 0 < bases <= 65536)
    wanted(kind in (0, 1))
    if kind == 0:
        top_k = {"count": struct.unpack("<Q", k)[0]}
        wanted(0 < top_k["count"] <= dim)
    else:
        top_k = {"share": struct.unpack("<d", k)[0]}
        wanted(0 < top_k["share"] <= 1)
    recipe = {
        "solution": stem,
        "epsilon": str(Fraction(top, bottom)),
        "dim": dim,
        "epochs": epochs,
        "mu": mu,
        "k": top_k,
        "clip": clip,
        "momentum": momentum,
        "ratio": ratio,
        "seed": str(seed),
        "learning_rate": rate,
        "rho": None if nothing else rho,
        "words": codewords or None,
        "bases": bases,
    }
    place = {"version": version, "run": run.hex(), "epoch": epoch, "round": number}
    return {**place, "purpose": texts[0], "recipient": texts[1], "recipe": recipe}, rest


def check_text(text, visible, marks):
    wanted(all(ord(c) in visible for c in text))
    wanted(text == text.strip(" ") and "  " not in text)
    wanted(unicodedata.normalize("NFC", text) == text)
    row = 5
    for c in text:
        row = row + 1 if ord(c) in marks else 5 if c == " " else 0
        wanted(row <= 4 or c == " ")


# --- section 8 -------------------------------------------------------------------------------


def charge(recipe):
    """The exact charge of a report, and its ratio."""
    name, d = recipe["solution"], recipe["dim"]
    epsilon = Fraction(recipe["epsilon"]) / recipe["epochs"]
    k = None if name == "BR" else foreign.count(recipe["k"], d)

    def valued(value, share):
        wanted(share >= Fraction(1e-12))
        return max(Fraction(H, L) for _, _, L, H in foreign.symbol_law(value, share)[0])

    if name == "FJ":
        wanted(d <= 2**22)
        M, k, _ = foreign_fresh.of(recipe, foreign.exp_lower)
        weights = foreign.threshold(epsilon, k, 2 * M)[0]
        ratio = Fraction(max(weights), min(weights))
    elif name == "BR":
        blocks = foreign_blocks.Blocks(recipe)
        weights = foreign.threshold(epsilon, blocks.holding, blocks.size)[0]
        ratio = Fraction(max(weights), min(weights))
    elif name in ("J", "RJ", "RC"):
        M = slots(recipe, epsilon)
        weights = foreign.threshold(epsilon, foreign.best_k(epsilon, M), 2 * M)[0]
        ratio = Fraction(max(weights), min(weights))
    elif name == "UJ":
        low, high = foreign.unbiased(epsilon, k, d)
        ratio = Fraction(high, low)
    elif selection := next((s for s in SELECTIONS if name.startswith(s + "-")), None):
        stem = name.removesuffix("-O")
        own = foreign.written(recipe["mu"]) * epsilon
        weights = foreign.selection_law(selection, own, k, d)[0]
        value = stem.removesuffix("-C").removeprefix(selection + "-")
        share = epsilon if stem.endswith("-C") else epsilon - own
        ratio = Fraction(max(weights), min(weights)) * valued(value, share)
    elif name.endswith("-RP"):
        wanted(max(1, math.floor(foreign.written(recipe["ratio"]) * d)) * d <= 2**24)
        ratio = valued(name.removesuffix("-RP"), epsilon)
    else:
        picks = max(1, min(d, math.floor(epsilon / Fraction(5, 2))))
        ratio = valued(name.removeprefix("RS-"), epsilon / picks) ** picks
    with localcontext(prec=400):
        log = (Decimal(ratio.numerator) / ratio.denominator).ln()
        within = log <= Decimal(epsilon.numerator) / epsilon.denominator
        proved = Fraction(math.ceil(log * 2**36), 2**36)
    return (min(proved, epsilon) if within else proved), ratio


def slots(recipe, epsilon):
    d = recipe["dim"]
    if recipe["solution"] == "RJ":
        rotations = 1 if recipe["bases"] is None else foreign.rotations(epsilon, d)
        return rotations * foreign.width(d)
    if recipe["solution"] == "RC":
        M = recipe["words"] or min(2**13, 1 << (8 * d - 1).bit_length())
        wanted(M * d <= 2**24)
        return M
    return d


def check_policy(policy, fields, weights):
    recipe = fields["recipe"]
    d = recipe["dim"]
    listed = recipe["solution"] in policy["solutions"] and d in policy["dimensions"]
    if not listed or recipe["clip"] > policy["clip"]:
        raise Refused("NOT_ALLOWED")
    for name in ("purpose", "recipient"):
        texts, text = policy[f"{name}s"], fields[name]
        missing = policy[f"require_{name}"] and not text if texts is None else text not in texts
        if missing:
            raise Refused("PURPOSE")
    size = len(weights)
    kind, n = {4 * d: ("f", d), 8 * d: ("d", d)}.get(size, (None, 0))
    if recipe["solution"] == "BR":
        kind, n = (None if size % 8 or size > 2**27 else "d"), size // 8
    if kind is None:
        raise Refused("WEIGHTS")
    bound = policy["weight_bound"]
    bound = foreign_public.unbounded(bound) if kind == "f" else bound
    if not all(abs(w) <= bound for w in struct.unpack(f"<{n}{kind}", weights)):
        raise Refused("WEIGHTS")
    try:
        price = charge(recipe)[0]
    except ValueError:
        raise Refused("MALFORMED") from None
    if price > Fraction(policy["per_report"]):
        raise Refused("TOO_MUCH")
    return price, "<f4" if kind == "f" else "<f8"


# --- sections 9 and 10 -----------------------------------------------------------------------


class Device:
    """One policy and one ledger, begun at a time."""

    def __init__(self, policy, visible, marks, begun):
        self.policy, self.characters = policy, (visible, marks)
        self.begun, self.limits = begun, limits_of(policy)
        self.spent, self.runs, self.entries = Fraction(0), {}, []

    def answer(self, message, weights, update, time, words):
        fields, bytes_of_recipe = parse(message, *self.characters)
        price, kind = check_policy(self.policy, fields, weights)
        digest = hashlib.sha256(message + kind.encode() + weights).digest()
        run, task = fields["run"], (bytes_of_recipe, fields["purpose"], fields["recipient"])
        earlier = self._earlier(fields, task, digest, price, time)
        if earlier is not None:
            return earlier
        recipe, policy = fields["recipe"], self.policy
        if recipe["solution"] == "BR" and isinstance(update, int):
            update = [float(entry == update) for entry in range(recipe["dim"])]
        g = foreign.saturated(update if len(update) == recipe["dim"] else [0.0] * recipe["dim"])
        if recipe["solution"].endswith("-O"):
            g = foreign.saturated(g, recipe["learning_rate"])
        if run not in self.runs:
            self.runs[run] = {"task": task, "open": True, "residual": None}
            still = [r for r in self.runs.values() if r["open"]]
            for oldest in still[: max(0, len(still) - policy["runs"])]:
                oldest.update(open=False, residual=None)
        before = self.runs[run]["residual"] or [0.0] * recipe["dim"]
        pairs, kept = foreign.report(recipe, fields["round"], g, before, words)
        report = foreign.message(bytes.fromhex(run), fields["round"], pairs)
        place, time = (run, fields["epoch"], fields["round"]), self._time(time)
        self.entries.append((*place, time, digest, report, price))
        self.spent = added(self.spent, price)
        made = sum(e[:2] == (run, fields["epoch"]) for e in self.entries)
        last = fields["epoch"] == recipe["epochs"] - 1 and made >= policy["reports_per_epoch"]
        self.runs[run]["residual"] = None if last else kept
        return report

    def _earlier(self, fields, task, digest, price, time):
        run, policy = fields["run"], self.policy
        known = self.runs.get(run)
        if known and known["task"] != task:
            raise Refused("CONFLICT")
        own = [e for e in self.entries if e[0] == run]
        for entry in own:
            if entry[2] == fields["round"]:
                if entry[4] != digest:
                    raise Refused("CONFLICT")
                return entry[5]
        if any(e[2] > fields["round"] or e[1] > fields["epoch"] for e in own):
            raise Refused("OUT_OF_ORDER")
        if known and not known["open"]:
            raise Refused("OUT_OF_ORDER")
        if sum(e[1] == fields["epoch"] for e in own) >= policy["reports_per_epoch"]:
            raise Refused("TOO_OFTEN")
        today, most = sum(e[3] > time - 86400 for e in self.entries), policy["reports_per_day"]
        if most is not None and today >= most:
            raise Refused("TOO_OFTEN")
        if not self._affords(fields, price, self._time(time)):
            raise Refused("EXHAUSTED")
        return None

    def _time(self, now):
        times = [self.begun, *(e[3] for e in self.entries)]
        found = time_of(now, times, self.limits, self.policy.get("clock_tolerance"))
        if found is None:
            raise Refused("CLOCK")
        return found

    def _affords(self, fields, price, time):
        stated = {run: known["task"][1:] for run, known in self.runs.items()}
        past = [(e[3], e[6], *stated[e[0]]) for e in self.entries]
        return all(
            added(held(limit, past, time), price) <= limit[0]
            for limit in self.limits
            if concerns(limit[2:], (fields["purpose"], fields["recipient"]))
        )
