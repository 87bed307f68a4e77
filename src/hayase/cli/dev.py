"""`hayase dev …`: a server for trying things out, and quicker starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hayase.app.stop_request import StopRequest
from hayase.core.errors import LogError

dev = typer.Typer(no_args_is_help=True, help="For development: kafka, warm-up.", rich_markup_mode=None)

_LOOK_EVERY_S = 0.5


@dev.callback()
def _group() -> None:
    """For development: a Kafka broker, and quicker starts."""


@dev.command()
def kafka(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 9092,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="Where topics are kept. Default: a temporary folder, removed at the end."
        ),
    ] = None,
) -> None:
    """Run a Kafka broker on this machine until Ctrl-C.

    One real broker (KRaft), for development: no security, no replicas, records never expire. The first start on a
    machine downloads Kafka from Maven Central. Needs Java 17 or newer.

    For example:

        hayase dev kafka

        hayase dev kafka --port 19092 --dir ~/kafka     (keeps its topics for the next time)

        hayase topics list -b 127.0.0.1:9092     (in another terminal)
    """
    from hayase.testing.kafka_broker import KafkaBroker

    broker = KafkaBroker(folder.expanduser() if folder is not None else None, port=port)
    typer.echo("starting Kafka …", err=True)
    with StopRequest() as stop, broker:
        typer.echo(f"bootstrap.servers={broker.bootstrap_servers}")
        typer.echo(f"log: {broker.log_file}; Ctrl-C stops it", err=True)
        while not stop.wait(_LOOK_EVERY_S):
            if broker.pid is None:
                raise LogError("KAFKA_BROKER_FAILED", f"the broker ended by itself; {broker.log_file} says why")
    typer.echo("stopped", err=True)


@dev.command("warm-up")
def warm_up() -> None:
    """Make Spark start in about half the CPU time, once per machine.

    Runs a small application and keeps the classes that Java loaded in an archive of about 170 MB in the cache folder;
    later starts read them from there. Takes some 20 seconds; does nothing if the archive is there. `make setup` calls
    it.

    For example:

        hayase dev warm-up
    """
    from hayase.cli.warm_up import make_archive

    file, is_new = make_archive()
    typer.echo(f"{'made' if is_new else 'there already'}: {file}", err=True)
