"""The command `textpriv`: sanitize, attack, audit and report on a file, in a shell.

What it needs is imported by each command when it runs, so that `--help` waits for nothing. Results
go to standard output, everything else to standard error, and nothing of an original is put out
unless it is asked for.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from textpriv import __version__
from textpriv.errors import TextprivError

if TYPE_CHECKING:
    from textpriv.evaluation.evaluate import Evaluation
    from textpriv.evaluation.sanitizers import Sanitizer


class _Clear(click.Group):
    """Errors of the library as one line, not a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TextprivError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            raise click.ClickException(
                f"{error.filename or 'output'}: {error.strerror or error}"
            ) from error


@click.group(cls=_Clear, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="textpriv")
@click.option(
    "--include",
    multiple=True,
    metavar="FILE.py",
    help="Run a file that registers attacks.",
)
def main(include: Sequence[str]) -> None:
    """How private is sanitized text? Try it on your own.

    A FILE is a .txt file with a text per line, a .csv, .tsv, .jsonl or .parquet file with a column
    of texts, or - for lines on standard input.
    """
    if include:
        from textpriv.evaluation.sanitizers import include as run

        for path in include:
            run(path)


# --- Options that several commands share ----------------------------------------------------------


def _options(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_PLACE = click.Path(dir_okay=False, writable=True)  # refused before the work, not after it

_column = click.option(
    "--column", default="text", show_default=True, help="The column of the texts."
)
_out = click.option(
    "--out", "-o", type=_PLACE, help="Where to write; standard output where it is not given."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_seed = click.option(
    "--seed",
    type=click.IntRange(0),
    help="Make the same draws again. For experiments: who knows the seed can undo them.",
)
_policy = click.option(
    "--policy",
    type=click.Choice(["private", "keep-unknown"]),
    default="private",
    show_default=True,
    help="Numbers, names and words that the vocabulary lacks: 'private' replaces or drops them, "
    "'keep-unknown' passes them on in clear, as released code does.",
)


def _name(required: bool) -> Callable[..., Any]:
    return click.option(
        "--mechanism", "-m", required=required,
        help="A name (textpriv ls mechanisms), or module:Name or file.py:Name of your own.",
    )  # fmt: skip


def _mechanism(required: bool) -> Callable[..., Any]:
    epsilon = click.option(
        "--epsilon", "-e", type=float, help="Its privacy parameter, a number > 0."
    )
    return _options(_name(required), epsilon, _policy)


_public = click.option(
    "--public",
    default="imdb",
    show_default=True,
    help="What the attacker has read: a corpus' name, a file, or 'none'.",
)
_evaluation = _options(
    click.option("--label", help="A column of labels: are they still predicted?"),
    click.option("--author", help="A column that says who wrote each text."),
    click.option("--attack", "attacks", multiple=True, help="Only this attack; may be repeated."),
    _public, _column, _seed, _json,
)  # fmt: skip


# --- Commands -------------------------------------------------------------------------------------


@main.command("ls")
@click.argument("what", type=click.Choice(["mechanisms", "attacks", "corpora", "assets"]))
@_json
def ls(what: str, as_json: bool) -> None:
    """List what has a name."""
    names = _listed(what)
    if as_json:
        click.echo(json.dumps(names, indent=2))
        return
    width = max(map(len, names))
    for name, title in names.items():
        click.echo(f"{name.ljust(width)}  {title}")


def _listed(what: str) -> dict[str, str]:
    if what == "assets":
        from textpriv.assets.catalogue import registry

        return {each.id: each.title for each in registry().values()}
    if what == "corpora":
        from textpriv.data.corpora.registry import CORPORA

        return {name: each.label for name, each in CORPORA.items()}
    if what == "mechanisms":
        from textpriv.mechanisms.registry import WORD_LEVEL

        return {name: each.label for name, each in WORD_LEVEL.items()}
    from textpriv.evaluation.evaluate import described_attacks

    return described_attacks()


@main.command("sanitize")
@click.argument("file")
@_mechanism(required=True)
@_out
@_column
@_seed
@_json
def sanitize(
    file: str, mechanism: str, epsilon: float | None, policy: str, out: str | None, column: str,
    seed: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Sanitize the texts of FILE, a line for each; an empty line stays one."""
    import numpy as np

    from textpriv.mechanisms.base import simulation

    rows = _texts(file, column, empty=True)
    texts = [row for row in rows if row]
    click.echo(f"{len(texts):,} texts; sanitizing ...", err=True)
    made = _made(mechanism, epsilon, policy)
    click.echo(f"{made.label} ({made.setting})", err=True)
    if made.mechanism is not None:
        claim = made.mechanism.claim
        click.echo(f"guarantee: {claim.definition}", err=True)
        click.echo(f"the output shows {claim.in_clear}", err=True)
    if made.policy and made.policy.kept:
        click.echo(f"in clear: {', '.join(made.policy.kept)}", err=True)
    if seed is not None:
        click.echo("with a seed: who knows it can undo this; for experiments only", err=True)
    rng = None if seed is None else np.random.default_rng(seed)
    with simulation(), _aside():  # the seed is spoken of above
        sent = iter(made.sanitize(texts, rng))
    outputs = (next(sent) if row else "" for row in rows)  # line stands beside line
    lines = (
        json.dumps({"text": output}) if as_json else output.replace("\n", " ") for output in outputs
    )
    _put("".join(f"{line}\n" for line in lines), out)


@main.command("attack")
@click.argument("original")
@click.argument("sanitized")
@_mechanism(required=False)
@_evaluation
def attack(original: str, sanitized: str, **options: Any) -> None:
    """Attack SANITIZED, whose originals are the texts of ORIGINAL, whatever tool made it.

    With --mechanism, where it is one of ours, attackers know its probabilities too.
    """
    _said(_evaluated(original, sanitized, options), options["as_json"])


@main.command("report")
@click.argument("file")
@_mechanism(required=True)
@click.option("--out", "-o", default="report.html", show_default=True, type=_PLACE,
              help="The page to write.")  # fmt: skip
@click.option("--card", type=_PLACE, help="Where to write the card, a JSON file without texts.")
@click.option("--examples", type=click.IntRange(0), default=5, show_default=True,
              help="Texts that the page quotes, before and after.")  # fmt: skip
@_evaluation
def report(file: str, out: str, card: str | None, examples: int, **options: Any) -> None:
    """Sanitize FILE, attack what came out, and write one page that says it all."""
    evaluation = _evaluated(file, None, options, examples)
    _said(evaluation, options["as_json"])  # first: a file that cannot be written loses nothing
    evaluation.page(out)
    if card:
        _put(json.dumps(evaluation.card(), indent=2, allow_nan=False) + "\n", card)
    quoted = (
        f", which quotes {len(evaluation.examples)} originals" if len(evaluation.examples) else ""
    )
    click.echo(f"the page is {out}{quoted}", err=True)


@main.command("audit")
@click.argument("mechanism")
@click.option("--epsilon", "-e", type=float, help="What it claims per word, a number > 0.")
@_policy
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the tests' own draws."
)
@_json
def audit(mechanism: str, epsilon: float | None, policy: str, seed: int, as_json: bool) -> None:
    """Put MECHANISM to the test: a name, module:Name or file.py:Name. Status 1 if it fails."""
    from textpriv.evaluation.trial import check_mechanism

    with _aside():
        outcome = check_mechanism(_loaded(mechanism), epsilon=epsilon, policy=policy, seed=seed)
    checks = outcome.rows.to_dict("records")
    summary = {"name": outcome.name, "passed": outcome.passed, "checks": checks}
    click.echo(json.dumps(summary, indent=2) if as_json else str(outcome))
    sys.exit(0 if outcome.passed else 1)


@main.command("card")
@_mechanism(required=True)
@_out
@click.option("--check", help="A card that was sent in: made again, and compared with it.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the mechanism's draws."
)
def card(out: str | None, check: str | None, seed: int, **chosen: Any) -> None:
    """Make a card of MECHANISM on the sentences that are the same for all cards."""
    from textpriv.evaluation import cards

    sent = None if check is None else cards.read_card(Path(check))  # before the minutes of work
    with _aside():
        made = cards.make_card(_made(**chosen), seed=seed)
    if sent is None:
        _put(json.dumps(made, indent=2, allow_nan=False) + "\n", out)
        return
    apart = cards.differences(sent, made)
    click.echo("all of it agrees within the joint error" if apart.empty else apart.to_string())
    sys.exit(0 if apart.empty else 1)


@main.command("preview")
@click.argument("file")
@_name(required=True)
@_policy
@click.option("--epsilons", required=True, help="Several, with commas: 1,2,4,8.")
@click.option("--summary", is_flag=True, help="Predict what a model's summary would be worth.")
@_public
@_column
@_json
def preview(
    file: str, mechanism: str, policy: str, epsilons: str, summary: bool, public: str, column: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Show what FILE would look like at several epsilons, what is kept and what is recovered.

    Run it on public texts like yours: an epsilon that was chosen by a look at the private file is
    not covered by its own guarantee.
    """
    from textpriv.evaluation.evaluate import public_texts
    from textpriv.evaluation.preview import BY_PUBLIC, previewed

    try:
        wanted = [float(each) for each in epsilons.split(",")]
    except ValueError as error:
        raise click.BadParameter(
            "expected numbers with commas, for instance 1,2,4", param_hint="--epsilons"
        ) from error
    given, chosen = _texts(file, column), _loaded(mechanism)
    read = None if public == "none" else public_texts(public, column)
    click.echo(f"{len(given):,} texts; sanitizing and attacking ...", err=True)
    with _aside():
        rows = previewed(given, chosen, wanted, public=read, policy=policy, summary=summary)
    click.echo(BY_PUBLIC, err=True)
    if as_json:
        click.echo(rows.to_json(orient="records", indent=2))
        return
    click.echo(rows.drop(columns="sanitized").round(3).to_string(index=False))
    for epsilon, text in zip(rows["epsilon"], rows["sanitized"], strict=True):
        click.echo(f"\nThe first text at eps {epsilon:g}:\n{text}")


# --- Between the shell and the library ------------------------------------------------------------


def _aside() -> redirect_stdout[Any]:
    """What somebody's own code prints is no result."""
    return redirect_stdout(sys.stderr)


def _loaded(mechanism: str) -> Any:
    if ":" not in mechanism and not mechanism.endswith(".py"):
        return mechanism
    from textpriv.evaluation.sanitizers import load

    sys.path.insert(0, "")  # a module that lies here
    return load(mechanism)


def _made(mechanism: str, epsilon: float | None, policy: str) -> Sanitizer:
    from textpriv.evaluation.sanitizers import sanitizer

    return sanitizer(_loaded(mechanism), epsilon=epsilon, policy=policy)


@contextmanager
def _path(file: str) -> Iterator[Path]:
    """The file, or a copy of standard input."""
    if file != "-":
        yield Path(file)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "standard input.txt")
        copy.write_bytes(sys.stdin.buffer.read())
        try:
            yield copy
        except TextprivError as error:
            raise click.ClickException(str(error).replace(str(copy), "standard input")) from error


def _texts(file: str, column: str, *, empty: bool = False) -> list[str]:
    from textpriv.evaluation.texts import texts_of

    with _path(file) as path:
        return texts_of(path, column=column, empty=empty)


def _column_of(file: str, name: str | None, column: str) -> Iterable[object] | None:
    if name is None:
        return None
    if file == "-":
        raise click.UsageError("standard input has no columns: give a table for --label, --author")
    from textpriv.data import corpora

    return list(corpora.read_table(file, text=column, columns=(name,)).columns[name])


def _evaluated(
    original: str, sanitized: str | None, options: dict[str, Any], examples: int = 0
) -> Evaluation:
    from textpriv.evaluation.evaluate import evaluate

    column, public, mechanism = (options[name] for name in ("column", "public", "mechanism"))
    labels, authors = (_column_of(original, options[name], column) for name in ("label", "author"))
    click.echo("attacking ...", err=True)
    with _path(original) as path, _aside():
        return evaluate(
            path,
            None if sanitized is None else _texts(sanitized, column, empty=True),
            column=column,
            mechanism=mechanism and _made(mechanism, options["epsilon"], options["policy"]),
            attacks=options["attacks"] or None,
            labels=labels,
            authors=authors,
            public=None if public == "none" else public,
            examples=examples,
            seed=options["seed"],
        )


def _said(evaluation: Evaluation, as_json: bool) -> None:
    click.echo(
        json.dumps(evaluation.card(), indent=2, allow_nan=False) if as_json else str(evaluation)
    )


def _put(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
        return
    from textpriv.files import write_atomic

    write_atomic(Path(out), text.encode("utf-8", "surrogatepass"))
