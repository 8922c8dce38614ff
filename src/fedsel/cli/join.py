"""``fedsel join``: a device that takes part in the run of a service."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsel._internal.display import counted, printable
from fedsel._internal.progress import progress_console
from fedsel.cli._commands import naming_option
from fedsel.cli._terminal import JsonOption, print_json, say_error
from fedsel.cli.ledger import print_history
from fedsel.errors import InvalidArgument, check_epsilon
from fedsel.recipe import RECOMMENDED, decimal
from fedsel.wire._report import check_public_key

if TYPE_CHECKING:
    from fedsel.device import History, Limit, Offer, Policy, Session, Standing
    from fedsel.wire import Question

JOIN_EXAMPLE = (
    "Example: fedsel join https://example.org --data my.csv --label y --store ledger "
    "--policy policy.toml --token-file invitation   ·   "
    "fedsel join http://127.0.0.1:8000 --data my.csv --label y --store ledger --create "
    "--lifetime 8 --per-report 2 --token-file invitation"
)
_SHOWN = 12
_LIMITS, _WAY = "What it may spend", "The service"


def _option(text: str, shown: str = "none", panel: str | None = None, **more: Any) -> Any:
    """An option without a value of its own; ``shown`` says what holds then."""
    return typer.Option(help=text, show_default=shown, rich_help_panel=panel, **more)


_POLICY = _option("Your policy, a TOML file.", panel=_LIMITS)
_LIFETIME = _option(
    "In place of a policy: ε of all reports that this device will ever make.",
    "the lifetime of the policy",
    _LIMITS,
)
_PER_REPORT = _option("With --lifetime: ε of one report at most.", "the lifetime", _LIMITS)
_SERVER_KEY = _option(
    "With --lifetime: the key of the service that reports are sealed for, behind a relay.",
    panel=_WAY,
)
_SIGNING_KEY = _option(
    "With --lifetime: the key by which the service signs what it asks, behind a relay.",
    panel=_WAY,
)
_WITNESS = _option("The ledger's second file, best on another disk.", "in the store")
_SEEN = "Your invitation; others on this machine can see it here."
_TOKEN = _option(_SEEN, panel=_WAY, envvar="FEDSEL_TOKEN")
_TOKEN_FILE = _option("A file with your invitation.", panel=_WAY)
_CA = _option("Certificates to verify the service by (PEM).", "this system's", _WAY)
_EVERY = typer.Option(help="Seconds between two polls, about.", rich_help_panel=_WAY)
_PATIENCE = typer.Option(help="Seconds without an answer before it gives up.", rich_help_panel=_WAY)


def join_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the service.")],
    data: Annotated[Path, typer.Option(help="Your records, a CSV file with names at its top.")],
    store: Annotated[Path, typer.Option(help="The folder of this device's ledger.")],
    label: Annotated[
        str | None,
        typer.Option(help="The column of the label.", show_default="as the task says"),
    ] = None,
    policy: Annotated[Path | None, _POLICY] = None,
    lifetime: Annotated[float | None, _LIFETIME] = None,
    per_report: Annotated[float | None, _PER_REPORT] = None,
    create: Annotated[bool, typer.Option("--create", help="Begin a ledger where none is.")] = False,
    witness: Annotated[Path | None, _WITNESS] = None,
    server_key: Annotated[str | None, _SERVER_KEY] = None,
    signing_key: Annotated[str | None, _SIGNING_KEY] = None,
    token: Annotated[str | None, _TOKEN] = None,
    token_file: Annotated[Path | None, _TOKEN_FILE] = None,
    ca: Annotated[Path | None, _CA] = None,
    every: Annotated[float, _EVERY] = 5.0,
    patience: Annotated[float, _PATIENCE] = 600.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the first report.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take part in a run: answer its requests by private reports, as far as your policy allows.

    Ends when the run is over or the budget is spent, and shows the ledger. Started again, it goes
    on; what was paid for is sent again, and never paid for twice.
    """
    from fedsel.device import Client, Ended, Limit, Policy, RawRecords, Session
    from fedsel.statements._ledgers import with_contents

    with naming_option("--policy"):
        limits = None if policy is None else Policy.load(policy)
    if limits is None and lifetime is None:
        raise InvalidArgument("--policy", None, "a file, unless you set --lifetime")
    keys = {"server_key": server_key, "signing_key": signing_key}
    _check_given({"lifetime": lifetime, "per_report": per_report, **keys}, limits)
    invitation = _invitation(token, token_file)
    most = limits.limits if limits else (Limit(decimal("--lifetime", lifetime)),)
    history = _history(store, witness, create, most)
    records = RawRecords.read(data, label)  # an unusable file is reported before any contact
    with (
        _progress() as tell,
        Session(url, token=invitation, ca=ca, every=every, patience=patience, tell=tell) as session,
    ):
        try:
            offer = session.offer()
        except Ended as ended:
            say_error(ended)
            raise typer.Exit(1) from None
        # Nor is anybody asked, or a ledger begun, for a wrong file.
        if offer.task.question is None:
            records.suited(offer.task.schema)
        else:
            records.asked(offer.task.question)
        if limits is None:
            limits = _limits(offer, lifetime, per_report, keys)
        objection = _objection(offer, limits)
        _show(offer, limits, history, session, objection)
        asks = offer.request is not None and not objection
        if asks and not yes and _is_asked():
            typer.confirm("Take part?", abort=True, err=True)
        client = Client(limits, store, witness=witness, create=create)
        try:
            outcome = session.join(client, records)
        except KeyboardInterrupt:
            print_history(client.history())
            say_error("interrupted; the ledger is as above")
            raise typer.Exit(130) from None
    if as_json:
        print_json({**outcome.as_dict(), "ledger": with_contents(outcome.history)})
    else:
        print_history(outcome.history)
        late = f", {outcome.late} too late" if outcome.late else ""
        told = outcome.as_dict()["message"]
        typer.echo(printable(f"{counted(outcome.accepted, 'report')} accepted{late}; {told}"))
    if not outcome.regular:
        raise typer.Exit(1)


def _check_given(options: Mapping[str, Any], limits: Policy | None) -> None:
    """Refuse options in place of a policy beside one, and those that are no ε and no key."""
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is None:
            continue
        if limits is not None:
            raise InvalidArgument(option, value, "omitted with --policy")
        if name.endswith("key"):
            check_public_key(option, value)
        else:
            check_epsilon(option, value)


def _history(
    store: Path, witness: Path | None, create: bool, limits: Sequence[Limit]
) -> History | None:
    """The ledger of this device, None if it is to begin; an unusable one is reported at once."""
    from fedsel.device import Ledger
    from fedsel.device._entries import check_limits

    ledger = Ledger(store, witness)
    if store.exists() and not store.is_dir():
        raise InvalidArgument("--store", str(store), "a folder")
    if witness is not None and (witness.is_dir() or not witness.parent.is_dir()):
        raise InvalidArgument("--witness", str(witness), "a file in a folder that is there")
    if ledger.exists:
        history = ledger.read()
        check_limits(limits, history.limits)
        return history
    if not create:
        raise InvalidArgument("--store", str(store), "a folder with a ledger; --create begins one")
    return None


def _is_asked() -> bool:
    """Whether somebody is there to answer; else the policy decides alone."""
    return sys.stdin is not None and sys.stdin.isatty()


def _invitation(token: str | None, file: Path | None) -> str | None:
    if file is None:
        return token
    if token is not None:
        raise InvalidArgument("--token-file", str(file), "omitted with --token")
    try:
        lines = file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        lines = []
    if len(lines) != 1:
        raise InvalidArgument("--token-file", str(file), "a file with one invitation")
    return lines[0]


def _limits(
    offer: Offer, lifetime: float | None, per_report: float | None, keys: Mapping[str, str | None]
) -> Policy:
    """The policy of two numbers: this solution and this d, at no more than they say."""
    from fedsel.device import Policy

    solution = RECOMMENDED if offer.request is None else offer.request.recipe.solution
    task, measure = offer.task, offer.task.measure
    dim = 1 if task.schema is None else task.schema.dim
    if task.question is not None:
        dim = task.question.count
    answers = () if measure is None else measure.answers
    return Policy(
        lifetime=lifetime or 0.0,
        per_report=(lifetime if per_report is None else per_report) or 0.0,
        solutions=sorted({solution, *(() if measure is None else (RECOMMENDED, "BR"))}),
        dimensions=sorted({dim, *answers}),
        server_key=keys["server_key"],
        signing_key=keys["signing_key"],
    )


def _objection(offer: Offer, limits: Policy) -> str:
    """What the policy has against what is asked, for people; empty where nothing is seen yet."""
    from fedsel.device import Ended
    from fedsel.device._sealed import check_sealed
    from fedsel.device._session import columns_of

    if offer.request is None:
        return ""
    columns = columns_of(offer.task)
    if forbidden := limits.misfit(offer.request.recipe) or limits.forbidden(columns):
        return f"your policy does not allow {forbidden}"
    try:
        check_sealed(limits, offer.task)
    except Ended as ended:
        lacks = None in (limits.server_key, limits.signing_key) and offer.task.shuffle is not None
        options = " (--server-key, --signing-key, or in the file of your policy)"
        return ended.detail + (options if lacks else "")
    return ""


def _show(
    offer: Offer, limits: Policy, history: History | None, session: Session, objection: str
) -> None:
    """What the service asks, by its request and not by its word, and what the policy allows."""
    from fedsel.device._session import columns_of
    from fedsel.wire import check_sendable

    console = progress_console()

    def say(line: str) -> None:
        console.print(printable(line), highlight=False, soft_wrap=True)

    if session.exposed:
        say("Others on the way can read your invitation: this is http, not https.")
    if offer.request is None:
        say(f"The run {offer.task.name!r} is over.")
        return
    request = offer.request
    recipe, intent = request.recipe, request.intent
    price = None
    if limits.objection(recipe, intent) is None:  # else nothing of its size is built
        with suppress(ValueError, OverflowError):  # the device will refuse it
            price = check_sendable(recipe).charge
    purpose, recipient = intent.purpose or "not stated", intent.recipient or "not stated"
    say(f"{offer.task.name!r} asks this device for reports.")
    if offer.task.question is not None:
        _say_question(offer.task.question, say)
    if offer.task.measure is not None:
        asked = offer.task.measure
        say(
            "  Some devices, chosen by chance, measure the model instead of training it: with one"
            f" report at ε = {asked.epsilon:.6g}, one of {max(asked.answers)} answers at most."
        )
    say(f"  purpose: {purpose}   recipient: {recipient}")
    columns = columns_of(offer.task)
    if columns is not None:
        say(f"  of your columns: {', '.join(columns)}")
    standings = [one for one in _standings(limits, history) if one.limit.concerns(intent)]
    policy = f"  your policy: ε ≤ {_number(limits.most_per_report(intent))} a report"
    enough = ""
    if price is not None:
        reports = recipe.epochs * limits.reports_per_epoch
        say(
            f"  {recipe.solution}, d = {recipe.dim}: ε = {_number(price)} a report, "
            f"{counted(reports, 'report')}, ε = {_number(reports * price)} in all"
        )
        left = min(one.left for one in standings)
        enough = f", enough for {min(reports, int(left // price))} of them"
        shuffle = offer.task.shuffle
        if shuffle is not None:
            say(f"  {shuffle.said(reports * price)}")
            say(f"  {shuffle.condition}")
            so_far = session.reports_so_far()
            if so_far is not None:
                say(f"  The open round has {so_far:,} of the {shuffle.rule.n_min:,} reports.")
            say("  A report is paid for when it leaves, and counts once its round is released.")
    lasting = "; ".join(_left(one) for one in standings)
    say(f"{policy}; {lasting}{enough}")
    if objection:
        say(f"  {objection}")


def _say_question(question: Question, say: Callable[[str], object]) -> None:
    """What is asked, and which answers there are."""
    say(f"  the question: {question}")
    if question.count > 1:
        more = f", … ({question.count:,} answers)" if question.count > _SHOWN else ""
        say(f"  the answers: {', '.join(question.labels[:_SHOWN])}{more}")


def _standings(limits: Policy, history: History | None) -> list[Standing]:
    """What each limit of the policy counts now."""
    from fedsel.device._budget import Standing, latest

    past = () if history is None else history.past
    now = latest(time.time(), None if history is None else history.known_time)
    return [Standing.of(limit, past, now) for limit in limits.limits]


def _left(standing: Standing) -> str:
    limit = standing.limit
    told = f"{_number(standing.left)} of {_number(limit.epsilon)} are left"
    return told if limit.is_lifetime else f"{told} ({limit})"


def _number(amount: Fraction) -> str:
    return f"{float(amount):.6g}"


@contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """Lines about what happens; on a terminal a sign of life while nothing does."""
    console = progress_console()
    status = console.status("taking part") if console.is_terminal else None

    def tell(line: str) -> None:
        if status is not None:
            status.start()
        console.print(printable(line), highlight=False, soft_wrap=True)

    try:
        yield tell
    finally:
        if status is not None:
            status.stop()
