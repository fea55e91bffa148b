"""The commands, their help, and the one place where an error becomes an exit code.

Each command imports what it needs when it is called: `gate` works on a machine without Docker, `verify` runs in a
container that has neither Docker nor Compose, and `--help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from runner import __version__
from runner.base.errors import RunnerError
from runner.base.settings import describe
from runner.base.terms import ExitCode
from runner.cli.contract import group as contract

_EPILOG = (
    "Exit codes: 0 all pass - 1 a verification failed - 2 wrong usage or configuration - 3 infrastructure"
    " - 4 incomplete - 130 interrupted."
)

app = typer.Typer(
    name="runner",
    help="Verify, token by token, that a session server in front of SGLang is exact over many turns.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(contract, name="contract")

Variables = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME=VALUE]...", help="Variables, as in make and the environment; `settings` lists them."),
]


_E2E_HELP = f"""The main job: set up what is missing, run every planned cell, verdict, artifacts, tear down.

\b
Variables:
{describe()}
"""


@app.command(help=_E2E_HELP, epilog=_EPILOG)
def e2e(variables: Variables = None) -> None:
    """Run the main job."""
    from runner.cli.e2e import e2e as command

    raise typer.Exit(command(variables or []))


@app.command()
def soak(
    variables: Variables = None,
    runs: Annotated[int, typer.Option(help="How many runs, one after the other.")] = 10,
) -> None:
    """The same plan many times, and one table: does a clean ground ever give a false alarm? Best with URLs (`up`)."""
    from runner.cli.soak import soak as command

    raise typer.Exit(command(variables or [], runs))


@app.command()
def plan(
    variables: Variables = None,
    json: Annotated[bool, typer.Option("--json", help="The whole plan as JSON, on a terminal as well.")] = False,
) -> None:
    """Print what `e2e` would run: a table on a terminal, else the plan as JSON. Nothing is started."""
    from runner.cli.plan import show

    raise typer.Exit(show(variables or [], as_json=json))


@app.command()
def settings() -> None:
    """Print every variable with its values and default."""
    typer.echo(describe())


@app.command()
def images(
    variables: Variables = None,
    with_tests: Annotated[bool, typer.Option(help="Also the scripted engine that tests use.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="An image to build instead of those of a run; may be repeated.")
    ] = None,
) -> None:
    """Find or set up Docker, Compose, the base image and the project's images, and nothing else."""
    from runner.cli.images import ensure

    raise typer.Exit(ensure(variables or [], with_tests=with_tests, only=only or ()))


@app.command()
def verify(
    plan: Annotated[Path, typer.Option(help="The plan, plan.json.", exists=True, dir_okay=False)],
    family: Annotated[str, typer.Option(help="The lease to drive: its family.")],
    artifacts: Annotated[Path, typer.Option(help="Where ledgers and sessions are written.")] = Path("artifacts"),
    session_v1: Annotated[str, typer.Option(help="URL of the v1 session server.")] = "http://session-v1:8080",
    session_v2: Annotated[str, typer.Option(help="URL of the v2 session server.")] = "http://session-v2:8080",
    engine: Annotated[str, typer.Option(help="URL of the engine, for scoring replay.")] = "http://engine:30000",
) -> None:
    """Drive the planned cells of one lease (this is what the runner container does)."""
    from runner.cli.verify import verify as command

    urls = {"session-v1": session_v1, "session-v2": session_v2, "engine": engine}
    raise typer.Exit(command(plan, family, artifacts, urls))


@app.command(name="verify-index")
def verify_index(
    plans: Annotated[Path, typer.Option(help="Directory with one plan per index.", exists=True, file_okay=False)],
    index: Annotated[int, typer.Option(help="The lease to drive.", envvar="JOB_COMPLETION_INDEX", min=0)],
    artifacts: Annotated[Path, typer.Option(help="Where the run's directory is made.")] = Path("artifacts"),
) -> None:
    """Drive and judge the lease of one index (this is what the runner container of a Kubernetes pod does)."""
    from runner.cli.pod import verify_index as command

    raise typer.Exit(command(plans, index, artifacts))


@app.command()
def k8s(
    variables: Variables = None,
    out: Annotated[Path | None, typer.Option(help="Write the manifest here, not to standard output.")] = None,
    registry: Annotated[
        str, typer.Option(help="Where the cluster pulls this project's images from: registry.example/team.")
    ] = "",
    artifacts_claim: Annotated[
        str, typer.Option(help="PersistentVolumeClaim that keeps the artifacts; without it they go with the pods.")
    ] = "",
    model_cache: Annotated[
        str, typer.Option(help="PersistentVolumeClaim with the model cache (HF_HOME); ENGINE=gpu needs one.")
    ] = "",
    parallelism: Annotated[int, typer.Option(help="Leases at the same time; 0 for all.", min=0)] = 0,
    pull_secret: Annotated[list[str] | None, typer.Option(help="Secret to pull images with.")] = None,
) -> None:
    """Write the plan as a Kubernetes Indexed Job: one index is one lease. See docs/kubernetes.md.

    Variables are those of `e2e`: what is planned, ENGINE, images, time-outs. Nothing is started, no cluster is asked.
    """
    from runner.cli.k8s import Cluster
    from runner.cli.k8s import k8s as command

    cluster = Cluster(registry, artifacts_claim, model_cache, parallelism, tuple(pull_secret or ()))
    raise typer.Exit(command(variables or [], cluster, out))


@app.command()
def gate(
    run: Annotated[Path, typer.Argument(help="Artifacts of one run: artifacts/<run id>.", metavar="RUN")],
) -> None:
    """Judge recorded artifacts: plan + ledgers -> verdict. No Docker, no network."""
    from runner.cli.gate import gate as command

    raise typer.Exit(command(run))


@app.command()
def replay(
    run: Annotated[Path, typer.Argument(help="Artifacts of one run: artifacts/<run id>.", metavar="RUN")],
    models: Annotated[
        Path | None, typer.Option(help="Directory with <family>/tokenizer.json, where the artifacts have none.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the reports of the replayed verdict here.")] = None,
) -> None:
    """Judge recorded artifacts again, oracle included: sessions + plan + ledgers -> verdict. No Docker, no network."""
    from runner.cli.replay import replay as command

    raise typer.Exit(command(run, models=models, out=out))


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(help="The directory to make.", metavar="OUT")],
    runs: Annotated[list[Path], typer.Argument(help="Artifacts of the shards (SHARD=i/n).", metavar="RUN...")],
) -> None:
    """Make one verdict of the artifacts of many shards. A shard that is missing is named, never silence."""
    from runner.cli.merge import merge as command

    raise typer.Exit(command(out, runs))


@app.command()
def repro(
    run: Annotated[Path, typer.Argument(help="Artifacts of one run: artifacts/<run id>.", metavar="RUN")],
    cell: Annotated[str, typer.Argument(help="One of its cells: family/lane/scenario.", metavar="CELL")],
) -> None:
    """Run one recorded cell again with everything it had: images by id, seeds, settings."""
    from runner.cli.repro import repro as command

    raise typer.Exit(command(run, cell))


@app.command()
def doctor(variables: Variables = None) -> None:
    """Say what is missing on this machine, and the line that mends it. Changes nothing."""
    from runner.cli.doctor import doctor as command

    raise typer.Exit(command(variables or []))


@app.command()
def sweep(
    all_runs: Annotated[bool, typer.Option("--all", help="Also kept runs and runs of unknown owners.")] = False,
) -> None:
    """Remove what killed runs left behind, by our label only. Runs that are alive are never touched."""
    from runner.cli.sweep import sweep as command

    raise typer.Exit(command(everything=all_runs))


@app.command()
def up(variables: Variables = None) -> None:
    """Start the environment for a person, print URLs and a curl line, and leave it running."""
    from runner.cli.up import up as command

    raise typer.Exit(command(variables or []))


@app.command()
def down() -> None:
    """Remove every environment that `up` (or KEEP=1) left running."""
    from runner.cli.up import down as command

    raise typer.Exit(command())


@app.command(name="sglang-upgrade")
def sglang_upgrade(
    version: Annotated[str, typer.Argument(help="A published version of SGLang.", metavar="VERSION")],
    variables: Variables = None,
    timeout: Annotated[float, typer.Option(help="Seconds for the kit on one engine.", min=1)] = 900.0,
) -> None:
    """Compare the pinned SGLang with another version: stubs, contracts and cells, as one table. Moves no pin."""
    from runner.cli.upgrade import upgrade

    raise typer.Exit(upgrade(version, variables or [], timeout=timeout))


@app.command(name="micro-model")
def micro_model(variables: Variables = None) -> None:
    """Train the CPU micro model of FAMILY again, in the engine image, into images/engine-cpu/models (minutes)."""
    from runner.cli.micro import train

    raise typer.Exit(train(variables or []))


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point: runs one command; errors meant for people become one message and their exit code."""
    try:
        app()
    except RunnerError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: a file could not be read or written: {error}", file=sys.stderr)
        sys.exit(ExitCode.INFRASTRUCTURE)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(ExitCode.INTERRUPTED)
