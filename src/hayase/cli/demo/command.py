"""`hayase demo`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hayase.cli.options import CommandConfig
from hayase.core.errors import ConfigError

_ORDERS, _ORDERS_MIN, _SHOP_ORDERS, _CDC_ORDERS = 200_000, 1_000, 200, 1_000


def demo(
    orders: Annotated[
        int | None,
        typer.Option(min=1, help="How many orders; default: 200000, with --cdc 1000, with --shop 200."),
    ] = None,
    keep_running: Annotated[
        bool, typer.Option("--keep-running", help="Go on with a trickle of orders and a live table until Ctrl-C.")
    ] = False,
    kafka: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Use topics on this Kafka broker instead of the embedded log."),
    ] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Run the same job written in SQL.")] = False,
    shop: Annotated[
        bool, typer.Option("--shop", help="Run the shop of examples/shop instead: four services, and a saga.")
    ] = False,
    cdc: Annotated[
        bool, typer.Option("--cdc", help="Run the same job between a PostgreSQL database, a webhook and Parquet files.")
    ] = False,
    apart: Annotated[
        bool, typer.Option("--apart", help="With --shop: give each of the four services a Spark of its own.")
    ] = False,
    kill: Annotated[bool, typer.Option("--kill", help="With --shop: kill services while they work.")] = False,
    postgres: Annotated[
        bool,
        typer.Option(
            "--postgres", help="With --shop: payments are a service with a PostgreSQL; read models are in another."
        ),
    ] = False,
    command_config: CommandConfig = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="Where topics and state go; emptied first. Default: in ~/.local/state."
        ),
    ] = None,
) -> None:
    """Run the e-commerce example on generated orders, show its result and check it.

    Orders are joined with users and products and summed up per product and region in windows of six hours, on a local
    Spark. At the end every result is compared with a batch computation over the same input; the exit code is 1 if they
    differ. Starts from nothing each time; needs Java 17 or newer, nothing else.

    With --shop, orders, payments, stock and shipping run as four applications in one Spark, or in four with --apart;
    customers send random orders and cancellations by HTTP, and read models follow in SQLite. With --postgres payments
    are a service with a PostgreSQL of its own, which is slow, fails and answers twice, and read models are in another;
    PostgreSQL is downloaded at the first use (15 MB). With --kill a process is killed, and started again, each time
    some more events have come. At the end it proves from the topics and the databases that every order was shipped and
    paid once, or cancelled with goods and money back; the exit code is 1 if not. Needs the extra server, and postgres.

    With --cdc, users and products are tables of a PostgreSQL that is started for the demo, and captured; orders come by
    webhook; sales go back into PostgreSQL, enriched orders into Parquet files. Users move and prices change meanwhile.
    At the end sales and files are compared with a batch computation of PostgreSQL over its own audit table; the exit
    code is 1 if they differ. The first run downloads PostgreSQL (15 MB) from Maven Central.

    For example:

        hayase demo

        hayase demo --orders 1000000 --dir /tmp/demo

        hayase demo --sql

        hayase demo --shop --orders 500

        hayase demo --cdc

        hayase demo --shop --postgres --kill

        hayase demo --keep-running

        hayase demo --kafka localhost:9092     (a broker of its own, e.g. from `hayase dev kafka`)
    """
    from hayase.cli.demo.run import DemoOptions, run_demo
    from hayase.cli.demo.sql_run import run_sql_demo

    if sql and keep_running:
        raise ConfigError(
            "OPTIONS_EXCLUDE", "--sql runs to the end of the input, --keep-running does not: give one of the two"
        )
    place = (folder or _default_folder()).expanduser().absolute()
    if (apart or kill or postgres) and not shop:
        raise ConfigError(
            "OPTIONS_EXCLUDE", "--apart, --kill and --postgres are of the shop: add --shop, or leave them out"
        )
    if shop or cdc:
        option = "--shop" if shop else "--cdc"
        if sql or keep_running or kafka is not None or command_config is not None or (shop and cdc):
            raise ConfigError(
                "OPTIONS_EXCLUDE",
                f"{option} runs to its end on the embedded log: leave out --sql, --keep-running, --kafka, "
                f"--command-config and {'--cdc' if shop else '--shop'}",
            )
        if cdc:
            raise typer.Exit(_run_cdc(orders, place))
        raise typer.Exit(_run_shop(orders, place, apart=apart, kill=kill, postgres=postgres))
    orders = _ORDERS if orders is None else orders
    if orders < _ORDERS_MIN:
        raise typer.BadParameter(f"{orders} is too few to compare; give {_ORDERS_MIN} or more", param_hint="--orders")
    options = DemoOptions(orders, place, kafka, keep_running, command_config)
    raise typer.Exit((run_sql_demo if sql else run_demo)(options, Console()))


def _run_cdc(orders: int | None, place: Path) -> int:
    from hayase.cli.demo.cdc_run import run_cdc_demo

    return run_cdc_demo(_CDC_ORDERS if orders is None else orders, place, Console())


def _run_shop(orders: int | None, place: Path, *, apart: bool, kill: bool, postgres: bool) -> int:
    from hayase.cli.demo.shop_run import ShopOptions, run_shop_demo

    options = ShopOptions(_SHOP_ORDERS if orders is None else orders, place, apart, kill, postgres)
    return run_shop_demo(options, Console())


def _default_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "hayase" / "demo"
