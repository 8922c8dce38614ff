"""A messy table of made-up customers: 30 columns with gaps, words among numbers, dates and skew.

The status of a customer is "stays", "downgrades" or, rarely, "leaves". docs/tables.md and
benchmarks/tables.py learn it from the other columns.

Example:
    python examples/customers.py customers.csv             # 20,000 records
    fedsel schema customers.csv --label status --out schema.toml
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PLANS = ["basic", "plus", "family", "max"]
REGIONS = ["north", "east", "south", "west", "islands", "abroad"]
DEVICES = ["android", "iphone", "landline", "router", "other phone"]
PAYMENTS = ["card", "bank", "invoice", "voucher"]
STATES = np.array(["stays", "downgrades", "leaves"])
MONTHS = [f"usage_{month:02}" for month in range(1, 13)]


def customers(records: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """A table of customers, the same for the same seed."""
    rng = np.random.default_rng(seed)

    def gaps(values: Any, share: float, gap: object = None) -> Any:
        holed = np.asarray(values, dtype=object)
        holed[rng.random(records) < share] = gap
        return holed

    def levels(texts: list[str], *weights: float) -> Any:
        return rng.choice(texts, records, p=np.array(weights) / sum(weights))

    age = rng.integers(18, 92, records)
    income = rng.lognormal(10.2, 0.7, records)
    joined = rng.integers(0, 5_000, records)  # days since 2011
    called = rng.integers(0, 700, records)  # days since 2023
    usage = rng.lognormal(2.5, 1.0, (records, 12)) * rng.lognormal(0, 0.6, (records, 1))
    complaints = rng.negative_binomial(1, 0.45, records)
    balance = rng.standard_t(3, records) * 80
    plan, region = levels(PLANS, 5, 3, 2, 1), levels(REGIONS, 4, 3, 3, 3, 1, 1)
    device, payment = levels(DEVICES, 5, 4, 1, 2, 1), levels(PAYMENTS, 5, 6, 2, 1)
    silent, paperless = rng.random(records) < 0.2, rng.random(records) < 0.6
    born = pd.to_datetime("2025-01-01") - pd.to_timedelta(age * 365 + 180, "D")
    first = pd.to_datetime("2011-01-01") + pd.to_timedelta(joined, "D")
    last = pd.to_datetime("2023-01-01") + pd.to_timedelta(called * 1440 + joined % 1440, "min")

    unhappy = 0.9 * np.minimum(complaints, 4) + 1.2 * silent - joined / 2_500 - 0.02 * age
    unhappy += 1.0 * (plan == "max") - 0.5 * (payment == "bank") - balance / 150
    thrifty = 1.6 * (plan != "basic") - 1.1 * np.log(usage.mean(axis=1) / 20)
    thrifty += 0.8 * (income < 22_000) + 0.7 * (region == "abroad") - 0.6 * paperless
    scores = np.stack([np.full(records, 1.9), 1.5 * thrifty, 1.5 * unhappy - 1.4], axis=1)
    status = STATES[(scores + rng.gumbel(size=scores.shape)).argmax(axis=1)]

    return pd.DataFrame(
        {
            "customer": [f"C{number:06}" for number in rng.permutation(records)],
            "age": gaps(gaps(age, 0.06), 0.02, "N/A"),
            "income": gaps(income.round(2), 0.15),
            "joined": first.strftime("%Y-%m-%d"),
            "born": gaps(born.strftime("%d.%m.%Y"), 0.05),
            "last_call": pd.Series(last).mask(silent),
            "plan": gaps(plan, 0.01, " Plus "),
            "region": gaps(region, 0.03),
            "device": gaps(device, 0.01, "pager"),
            "payment": payment,
            "paperless": gaps(paperless, 0.04),
            "roaming": rng.random(records) < 0.1,
            "complaints": complaints,
            "balance": balance.round(2),
            "household": gaps(rng.integers(1, 7, records), 0.1, ""),
            "rating": gaps(rng.integers(1, 6, records), 0.3),
            "note": levels(["", "call back", "moved", "asked for a manager"], 8, 1, 1, 1),
            **dict(zip(MONTHS, usage.round(1).T, strict=True)),
            "status": status,
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the .csv file to write")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    customers(options.records, options.seed).to_csv(options.file, index=False)


if __name__ == "__main__":
    main()
