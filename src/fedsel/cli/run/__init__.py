"""``fedsel run``: the main job."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from fedsel._internal.extras import check_installed
from fedsel.cli.common import JobsOption, JsonOption, check_folder
from fedsel.cli.config import load_config
from fedsel.cli.run.options import Files, spec_of, usual_names
from fedsel.cli.run.table import annotated, line_of, print_table, write_files
from fedsel.cli.run.work import announce, perform, source_of

EXAMPLE = (
    "Example: fedsel run --dataset syn-H --solution FJ --solution PS-PM --epsilon 2   ·   "
    "fedsel run --data my.csv --label income --solution FJ --scale private --json   ·   "
    "fedsel run --config examples/run.toml --epsilon 4"
)

_DATA, _WHAT, _TRAIN = "What to train on", "What to compare", "Training"
_SOLUTION, _CHECK, _PREPARE = "Parameters of solutions", "Validation", "Preparation of records"


def run(
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Synthetic data: syn-L or syn-H.", show_default="syn-L", rich_help_panel=_DATA
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your own data in place of --dataset: .csv, .parquet, .npz, .svm or .libsvm.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="The label column of --data: name or number.", rich_help_panel=_DATA),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether a .csv file begins with the names of its columns; without, they are "
            "numbered from 0.",
            show_default="names; what looks like a record is refused",
            rich_help_panel=_DATA,
        ),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(
            help="Public rows with the features of --data, unlabelled: free of ε.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    public_mean: Annotated[
        Path | None,
        typer.Option(
            help="Public means of features, free of ε: a .toml file of name = mean, or a .csv of "
            "name,mean; the mean of a level, such as job=clerk, is its share.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help="Deal the records out to so many clients.",
            show_default="one for each record",
            rich_help_panel=_DATA,
        ),
    ] = None,
    skew: Annotated[
        float | None,
        typer.Option(
            help="Label skew of --clients (Dirichlet; small is skewed).",
            show_default="none",
            rich_help_panel=_DATA,
        ),
    ] = None,
    data_seed: Annotated[
        int | None,
        typer.Option(
            "--draw", help="Seed of the synthetic data.", show_default="0", rich_help_panel=_DATA
        ),
    ] = None,
    solution: Annotated[
        list[str] | None,
        typer.Option(
            "--solution",
            "-s",
            help=f"{usual_names()} and others, which fedsel solutions lists; repeat for several.",
            show_default="NP, PM, EXP-PM, PE-PM, PS-PM and FJ",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            "--epsilon",
            "-e",
            help="ε of a client over all its reports; repeat for several.",
            show_default="0.5, 1, 2 and 4",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="logistic or svm; repeat for both.",
            show_default="logistic",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="E: reports of a client.",
            show_default="1",
            rich_help_panel=_TRAIN,
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            help="Clients of a round: a fraction or a count.",
            show_default="0.01",
            rich_help_panel=_TRAIN,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many rounds.",
            show_default="every client reports E times",
            rich_help_panel=_TRAIN,
        ),
    ] = None,
    learning_rate: Annotated[
        str | None,
        typer.Option(
            "--learning-rate",
            "-a",
            help="α, or auto.",
            show_default="auto for FJ, RJ, J, RC; else by data set",
            rich_help_panel=_TRAIN,
        ),
    ] = None,
    averaging: Annotated[
        float | None,
        typer.Option(
            help="Average the weights, t^p in round t; 0 takes the last.",
            show_default="3 where α is automatic, else 0",
            rich_help_panel=_TRAIN,
        ),
    ] = None,
    reg: Annotated[
        float | None,
        typer.Option(help="λ of the regulariser.", show_default="0.0001", rich_help_panel=_TRAIN),
    ] = None,
    dropout: Annotated[
        float | None,
        typer.Option(
            help="Chance that a client does not answer.",
            show_default="0",
            rich_help_panel=_TRAIN,
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="unit or symmetric (from public bounds), private (the first rounds learn how wide "
            "features are; FJ, RJ and RC), standard (by the records' own mean and deviation: not "
            "private), or none.",
            show_default="by data set; your own: unit if it has bounds, else standard",
            rich_help_panel=_PREPARE,
        ),
    ] = None,
    intercept: Annotated[
        bool | None,
        typer.Option(
            "--intercept/--no-intercept",
            help="A constant feature.",
            show_default="by data set",
            rich_help_panel=_PREPARE,
        ),
    ] = None,
    unit_records: Annotated[
        bool | None,
        typer.Option(
            "--unit-records/--no-unit-records",
            help="Clients divide their record by its norm.",
            show_default="with automatic α or ρ of FJ, RJ, J, RC",
            rich_help_panel=_PREPARE,
        ),
    ] = None,
    centre: Annotated[
        str | None,
        typer.Option(
            help="Learn the records' centre first: auto, yes, no or a share of the rounds.",
            show_default="auto",
            rich_help_panel=_PREPARE,
        ),
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            help="Learn the records' spread first: auto, yes, no or a share of the rounds.",
            show_default="auto",
            rich_help_panel=_PREPARE,
        ),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option(
            help="ρ, the public radius of FJ, J, RJ and RC, or auto.",
            show_default="auto where α is automatic, else none",
            rich_help_panel=_SOLUTION,
        ),
    ] = None,
    bases: Annotated[
        int | None,
        typer.Option(
            help="Rotated bases of RJ in a round.",
            show_default="64 over all rounds",
            rich_help_panel=_SOLUTION,
        ),
    ] = None,
    codewords: Annotated[
        int | None,
        typer.Option(
            "--words",
            help="Codewords of RC.",
            show_default="about 8·d",
            rich_help_panel=_SOLUTION,
        ),
    ] = None,
    mu: Annotated[
        str | None,
        typer.Option(
            help="μ, the share of ε for the selection of PS-PM and its like, or auto.",
            show_default="0.1",
            rich_help_panel=_SOLUTION,
        ),
    ] = None,
    theta: Annotated[
        float | None,
        typer.Option(
            help="θ, the most of μ = auto.", show_default="0.2", rich_help_panel=_SOLUTION
        ),
    ] = None,
    k: Annotated[
        str | None,
        typer.Option(
            "--k",
            "-k",
            help="The top k that are selected: a count or a fraction of d.",
            show_default="0.1",
            rich_help_panel=_SOLUTION,
        ),
    ] = None,
    momentum: Annotated[
        float | None,
        typer.Option(help="η of the residual.", show_default="0", rich_help_panel=_SOLUTION),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            help="Values are clipped to ±clip.", show_default="1", rich_help_panel=_SOLUTION
        ),
    ] = None,
    ratio: Annotated[
        float | None,
        typer.Option(help="q/d of …-RP.", show_default="0.1", rich_help_panel=_SOLUTION),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Folds.", show_default="5", rich_help_panel=_CHECK)
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Repeats.", show_default="10", rich_help_panel=_CHECK)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Results depend on it alone.", show_default="0", rich_help_panel=_CHECK),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The same options from a TOML file, such as epsilon = [1, 2]; options win.",
            callback=load_config,
            is_eager=True,
        ),
    ] = None,
    jobs: JobsOption = 0,
    out: Annotated[
        Path, typer.Option(help="The folder of the results; resumes from there.")
    ] = Path("results"),
    as_json: JsonOption = False,
) -> None:
    """Train with each solution at each ε by cross-validation, and compare.

    Shows progress, prints a table (mean ± standard deviation over the repeats), and writes
    run.csv, run.json and the figure accuracy.png/.svg. Ctrl-C keeps what is finished; the same
    command goes on from there.
    """
    del config  # its callback has filled in what was not given
    given = {
        "dataset": dataset,
        "solutions": solution,
        "epsilons": epsilon,
        "models": model,
        "epochs": epochs,
        "batch": batch,
        "learning_rate": learning_rate,
        "mu": mu,
        "theta": theta,
        "k": k,
        "momentum": momentum,
        "clip": clip,
        "reg": reg,
        "ratio": ratio,
        "rho": rho,
        "words": codewords,
        "bases": bases,
        "averaging": averaging,
        "centre": centre,
        "spread": spread,
        "scale": scale,
        "intercept": intercept,
        "unit_records": unit_records,
        "dropout": dropout,
        "clients": clients,
        "skew": skew,
        "folds": folds,
        "repeats": repeats,
        "draw": data_seed,
        "rounds": rounds,
        "seed": seed,
    }
    files = Files(data, label, header, public, public_mean)
    spec = spec_of({name: value for name, value in given.items() if value is not None}, files)
    check_folder("--out", out)
    check_installed("simulation", "fedsel run", "joblib", "scipy")
    import_module("fedsel.sampling.kernels")  # says what to do where they were left out
    announce(spec)
    spec, source = source_of(spec, files)
    rows, complete = perform(spec, source, out, jobs or os.cpu_count() or 1, line_of)
    rows = annotated(rows)
    written = write_files(rows, out) if rows else []
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
    elif rows:
        print_table(rows, written)
    if not complete:
        typer.echo(f"interrupted: {len(rows)} results are kept, run again to go on", err=True)
        raise typer.Exit(130)
