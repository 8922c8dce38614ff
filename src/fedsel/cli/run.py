"""``fedsel run``: the main job."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedsel.cli.common import JsonOption, check_folder, output, parse_top, say_error
from fedsel.cli.waiting import Bar, patience, progress_console
from fedsel.display import printable
from fedsel.errors import InvalidArgument
from fedsel.extras import MissingExtra, check_installed

if TYPE_CHECKING:
    from fedsel.experiments import Spec
    from fedsel.experiments.datasets import Source

EXAMPLE = (
    "Example: fedsel run --dataset adult --solution PS-PM --solution PM --epsilon 2   ·   "
    "fedsel run --data my.csv --label income --json"
)

SEEDED = (
    "seeded, to be repeated: who knows the seed can undo the noise. A simulation for research, "
    "not for release"
)
"""What the results say of their draws, in the table and in every row."""


def run(
    dataset: Annotated[
        str | None, typer.Option(help="syn-L, syn-H, bank, adult or kdd. [default: syn-L]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Your own data: .csv, .parquet, .npz or .svm.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label column of --data.")] = None,
    public: Annotated[
        Path | None,
        typer.Option(help="Public rows with the features of --data, unlabelled: free of ε."),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="A folder with the data files (or set FEDSEL_DATA).")
    ] = None,
    solution: Annotated[
        list[str] | None,
        typer.Option("--solution", "-s", help="NP, PM, PM-RP, PS-PM, PS-PM-C, …; repeat."),
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option("--epsilon", "-e", help="ε of a client; repeat.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="logistic or svm; repeat.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="E: reports of a client. [default: 1]")] = None,
    batch: Annotated[
        str | None, typer.Option(help="Clients a round: a fraction or a count. [default: 0.01]")
    ] = None,
    learning_rate: Annotated[
        str | None,
        typer.Option("--learning-rate", "-a", help="α, or auto. [default: by data set]"),
    ] = None,
    mu: Annotated[
        str | None, typer.Option(help="μ, the share of ε for selection, or auto. [default: 0.1]")
    ] = None,
    theta: Annotated[float | None, typer.Option(help="θ, the most of μ = auto.")] = None,
    k: Annotated[str | None, typer.Option("--k", "-k", help="Top k. [default: 0.1]")] = None,
    momentum: Annotated[float | None, typer.Option(help="η of the residual. [default: 0]")] = None,
    clip: Annotated[float | None, typer.Option(help="Values are clipped to ±clip.")] = None,
    reg: Annotated[float | None, typer.Option(help="λ. [default: 0.0001]")] = None,
    ratio: Annotated[float | None, typer.Option(help="q/d of …-RP. [default: 0.1]")] = None,
    rho: Annotated[
        str | None,
        typer.Option(help="ρ, the public radius of J, RJ and RC, or auto. [default: none]"),
    ] = None,
    codewords: Annotated[
        int | None, typer.Option("--words", help="Codewords of RC. [default: about 8·d]")
    ] = None,
    bases: Annotated[
        int | None, typer.Option(help="Rotated bases of RJ in a round. [default: 64 over all]")
    ] = None,
    averaging: Annotated[
        float | None,
        typer.Option(help="Average the weights, t^p in round t. [default: 3 with -a auto, else 0]"),
    ] = None,
    centre: Annotated[
        str | None,
        typer.Option(help="Learn the records' centre first: auto, yes, no or a share of rounds."),
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(help="Learn the records' spread first: auto, yes, no or a share of rounds."),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="none, unit, symmetric or standard. [default: by data set]")
    ] = None,
    intercept: Annotated[
        bool | None, typer.Option("--intercept/--no-intercept", help="A constant feature.")
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Chance that a client does not answer.")
    ] = None,
    clients: Annotated[
        int | None, typer.Option(help="Deal the records out to so many clients.")
    ] = None,
    skew: Annotated[
        float | None, typer.Option(help="Label skew of --clients (Dirichlet; small is skewed).")
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Folds. [default: 5]")] = None,
    repeats: Annotated[int | None, typer.Option(help="Repeats. [default: 10]")] = None,
    data_seed: Annotated[
        int | None, typer.Option("--draw", help="Seed of the synthetic data.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Stop after so many rounds.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed: results depend on it alone.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="The same options from a TOML file; options win.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="Runs at a time; 0 takes every core. Changes no result.")
    ] = 0,
    out: Annotated[Path, typer.Option(help="Where results go; resumes from there.")] = Path(
        "results"
    ),
    as_json: JsonOption = False,
) -> None:
    """Train with each solution at each ε by cross-validation, and compare.

    Shows progress, prints a table (mean ± standard deviation over the repeats), and writes
    run.csv, run.json and the figure accuracy.png/.svg. Ctrl-C keeps what is finished; the same
    command goes on from there.
    """
    options = {
        "dataset": dataset,
        "solutions": solution,
        "epsilons": epsilon,
        "models": model,
        "epochs": epochs,
        "batch": None if batch is None else _number("batch", batch),
        "learning_rate": _or_auto("learning_rate", learning_rate),
        "mu": _or_auto("mu", mu),
        "theta": theta,
        "k": None if k is None else parse_top(k),
        "momentum": momentum,
        "clip": clip,
        "reg": reg,
        "ratio": ratio,
        "rho": _or_auto("rho", rho),
        "words": codewords,
        "bases": bases,
        "averaging": averaging,
        "centre": _share("centre", centre),
        "spread": _share("spread", spread),
        "scale": scale,
        "intercept": intercept,
        "dropout": dropout,
        "clients": clients,
        "skew": skew,
        "folds": folds,
        "repeats": repeats,
        "draw": data_seed,
        "rounds": rounds,
        "seed": seed,
    }
    spec = _spec(
        config, {name: value for name, value in options.items() if value is not None}, data
    )
    if public is not None:
        spec = _with_public(spec, data)
    check_folder("--out", out)
    check_installed("simulation", "fedsel run", "joblib", "scipy")
    import_module("fedsel.sampling.kernels")  # says what to do where they were left out
    _announce(spec)
    rows, complete = _run(
        spec, _source(spec, data, label, public, directory), out, jobs or os.cpu_count()
    )
    rows = [{**row, "draws": SEEDED} for row in rows]
    written = _write(rows, out) if rows else []
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
    elif rows:
        _print(rows, written)
    if not complete:
        typer.echo(f"interrupted: {len(rows)} results are kept, run again to go on", err=True)
        raise typer.Exit(130)


def _number(name: str, text: str) -> float:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise InvalidArgument(name, text, "a number") from None


def _or_auto(name: str, text: str | None) -> float | str | None:
    return text if text is None else "auto" if text.lower() == "auto" else _number(name, text)


def _share(name: str, text: str | None) -> float | str | None:
    """auto, a share of the rounds, or yes and no for the usual share and none."""
    from fedsel import auto

    usual: dict[str, float] = {"yes": getattr(auto, name.upper()), "no": 0.0}
    if text and text.lower() in usual:
        return usual[text.lower()]
    try:
        return _or_auto(name, text)
    except InvalidArgument:
        raise InvalidArgument(f"--{name}", text, "auto, yes, no or a share of the rounds") from None


def _spec(config: Path | None, options: dict[str, Any], data: Path | None) -> Spec:
    from fedsel.experiments.spec import Spec, override

    spec = Spec()
    if config is not None:
        if not config.is_file():
            raise InvalidArgument("--config", str(config), "a TOML file that exists")
        try:
            values = tomllib.loads(config.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument("--config", str(config), f"valid TOML ({error})") from None
        options = {**values, **options}
    if data is not None:
        options["dataset"] = data.name
    return override(spec, options)


def _announce(spec: Spec) -> None:
    """The first word, before data are read and libraries loaded."""
    number = len(list(spec.cells()))
    results = "one result" if number == 1 else f"{number} results"
    line = f"{spec.dataset}: {results}, each from {spec.repeats} × {spec.folds} folds"
    progress_console().print(printable(line), highlight=False, markup=False)


def _with_public(spec: Spec, data: Path | None) -> Spec:
    """Public rows give the bounds of features, if nobody has declared any."""
    if data is None:
        raise InvalidArgument("--public", "given", "given together with --data")
    if spec.scale not in (None, "unit", "symmetric"):
        raise InvalidArgument("--scale", spec.scale, "unit or symmetric with --public")
    return replace(spec, scale=spec.scale or "unit")


def _source(
    spec: Spec,
    data: Path | None,
    label: str | None,
    public: Path | None,
    directory: Path | None,
) -> Source:
    from fedsel.data import read, read_rows
    from fedsel.experiments import Given, Named, with_public

    if data is not None:
        with patience(f"reading {data}"):
            dataset = read(data, label)
            if public is None:
                return Given(dataset)
            return with_public(dataset, read_rows(public, dataset, "--public"))
    with patience(f"{spec.dataset}: looking for its files") as notify:
        # What is missing is told before anything runs.
        Named(directory, notify).data(spec.dataset, spec.draw)
    return Named(directory)


def _run(
    spec: Spec, source: Source, out: Path, jobs: int | None
) -> tuple[list[dict[str, Any]], bool]:
    from fedsel.experiments import Store, sweep
    from fedsel.experiments.runner import Finished, total_cost
    from fedsel.experiments.store import key_of

    out.mkdir(exist_ok=True)
    store = Store(out / "results.sqlite")
    rows: list[dict[str, Any]] = []
    with Bar(total_cost(list(spec.cells()))) as bar:

        def finished(done: Finished) -> None:
            rows.append(done.row)
            bar.keep(_line(done.row))

        try:
            sweep(
                spec,
                source,
                store,
                jobs=jobs or 1,
                finished=finished,
                advance=lambda cost: bar.update("training", advance=cost),
            )
        except KeyboardInterrupt:
            # All that is kept, also what was written a moment before it would have been shown.
            keys = [key_of(c.kind, c.parameters, source.identity) for c in spec.cells()]
            kept = [store.get(key) for key in dict.fromkeys(keys)]
            return [row for row in kept if row is not None], False
    return rows, True


def _line(row: dict[str, Any]) -> str:
    """A result as it comes in."""
    at = "" if row["epsilon"] is None else f"ε = {row['epsilon']:g}"
    return f"{row['model']:<9} {row['solution']:<9} {at:<8} {_accuracy(row)} %"


def _accuracy(row: dict[str, Any]) -> str:
    return f"{100 * row['accuracy']:.2f} ± {100 * row['deviation']:.2f}"


def _write(rows: Sequence[dict[str, Any]], out: Path) -> list[Path]:
    from fedsel.experiments import plot
    from fedsel.experiments.sweep import tidy, write_csv

    write_csv(out / "run.csv", tidy(rows))
    (out / "run.json").write_text(json.dumps(rows, indent=1, allow_nan=False), encoding="utf-8")
    written = [out / "run.csv", out / "run.json"]
    try:
        with patience("drawing the figure"):
            return written + plot.save(plot.accuracy_against_epsilon(rows), out / "accuracy")
    except MissingExtra as error:  # the results are worth more than their figure
        say_error(f"no {error}")
        return written


def _notes(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What a reader of the table must know of how its rows came about."""
    if any(row["learning_rate"] == "auto" for row in rows):
        yield "* automatic: α, ρ and average from public quantities"
    if any(row["unit_records"] for row in rows):
        names = ", ".join(dict.fromkeys(row["solution"] for row in rows if row["unit_records"]))
        yield f"records of norm 1: {names}"
    chosen = [row["chosen"] for row in rows]
    for name in ("spread", "centre"):
        rounds = sorted({c[f"{name}_rounds"] for c in chosen} - {0})
        if rounds:
            counts = " or ".join(map(str, rounds))
            yield f"{name} of the records: learnt in {counts} rounds before the training"
    public = sorted({c["public_rows"] for c in chosen if "public_rows" in c})
    if public:
        yield f"{public[0]:,} public rows, which cost no ε: bounds, centre, spread and geometry"
    if any(row["scale"] == "standard" for row in rows):
        yield (
            "scaled by the records' own mean and deviation, which the exact ε does not cover: "
            "--scale unit with public bounds does without"
        )


def _print(rows: Sequence[dict[str, Any]], written: Sequence[Path]) -> None:
    first = rows[0]
    table = Table(
        title=f"{printable(first['dataset'])}: test accuracy, "
        f"{first['repeats']} × {first['folds']} folds"
    )
    headings = ("model", "solution", "ε", "exact ε", "accuracy (%)", "bits", "α", "privacy")
    for heading in headings:
        is_text = heading in ("model", "solution", "privacy")
        table.add_column(heading, justify="left" if is_text else "right")
    for row in rows:
        exact = row["epsilon_total"]
        table.add_row(
            row["model"],
            printable(row["solution"]),
            "" if row["epsilon"] is None else f"{row['epsilon']:g}",
            "∞" if exact is None else f"{exact:.4f}" if row["certified"] else "unproved",
            _accuracy(row),
            f"{row['bits']:,}",
            f"{row['chosen']['learning_rate']:.3g}"
            + ("*" if row["learning_rate"] == "auto" else ""),
            printable(row["privacy"]),
            style="" if row["certified"] and row["within_budget"] else "dim",
        )
    table.caption = "\n".join([f"draws: {SEEDED}", *_notes(rows)])
    console = output()
    console.print(table)
    for path in written:
        console.print(f"wrote {printable(path)}")
