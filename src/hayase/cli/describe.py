"""`hayase describe`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from hayase.app.app import StreamsApp
from hayase.cli.against import described_against
from hayase.cli.described_topics import described_topics
from hayase.cli.load import load
from hayase.cli.options import BootstrapServers, Config, ConfigFile, LogDir, log_settings, read_settings
from hayase.cli.run import Target, streams_config
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.topology.topology import Topology


class Format(StrEnum):
    """How a topology is shown."""

    TEXT = "text"
    MERMAID = "mermaid"


def describe(
    target: Target,
    config: Config = None,
    config_file: ConfigFile = None,
    output: Annotated[Format, typer.Option("--format", help="text, or a Mermaid flowchart for a Markdown page")] = (
        Format.TEXT
    ),
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    patterns: Annotated[
        bool,
        typer.Option("--patterns", help="Show aggregates and sagas: which commands follow from which events."),
    ] = False,
    beside: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="FILE:NAME", help="With --patterns: another program; may be repeated."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Tell what a start on this checkpoint (its checkpoint.dir) would do; exit code 1 if it is refused.",
        ),
    ] = None,
) -> None:
    """Show a topology as Kafka Streams describes it, the form each part runs in, and its topics with their partitions.

    A part runs in columns (whole batches at a time: fast) if every node in it allows that, else in rows, and the reason
    names what stands in the way. A topic that is missing, or whose partitions do not fit those it is joined with, is
    said to be so. Nothing is started or made.

    For example:

        hayase describe examples/ecommerce.py:topology

        hayase describe shop.py:topology -c processing.form=rows

        hayase describe shop.py:topology --format mermaid

        hayase describe shop.py:topology --against data/state/shop/checkpoint

        hayase describe orders.py:topology --patterns --with payments.py:topology
    """
    loaded = load(target)
    if patterns:
        describe_patterns(loaded.topology, beside or (), output)
        return
    if beside:
        raise ConfigError("OPTIONS_EXCLUDE", "--with names programs for --patterns: give both, or neither")
    settings = loaded.target.config if isinstance(loaded.target, StreamsApp) else None
    if settings is None:
        where = log_settings(log_dir, bootstrap_servers)
        settings = streams_config(loaded, read_settings(config, config_file, where))
    topology = configured(loaded.topology, settings)
    if output is Format.MERMAID:
        typer.echo(topology.describe().to_mermaid(), nl=False)
        return
    typer.echo(topology.describe().rstrip())
    typer.echo()
    around = (*spark_lines(topology), *connector_lines(topology))
    topics = described_topics(topology, settings)
    for line in (*form_lines(topology, settings), *around, *topics.lines):
        typer.echo(line)
    if against is not None:
        lines, refused = described_against(topology, settings, against, topics)
        typer.echo("\n".join(("", *lines)))
        if refused:
            raise typer.Exit(1)


def describe_patterns(topology: Topology, beside: Iterable[str], output: Format) -> None:
    """Print which commands follow from which events in some programs; exit code 1 if a part of them cannot work."""
    from hayase.patterns.description import described, mermaid
    from hayase.patterns.relations import problems, relations_of

    relations = relations_of(topology, *(load(each).topology for each in beside))
    if output is Format.MERMAID:
        typer.echo(mermaid(relations), nl=False)
    else:
        typer.echo("\n".join(described(relations)) or "no aggregates and no sagas")
    if problems(relations):
        raise typer.Exit(1)


def spark_lines(topology: Topology) -> list[str]:
    """One line for each Spark DataFrame, with the topic that joins it to the topology."""
    lines = [f"  from_spark {source.name} --> topic {source.topic}" for source in topology.spark_sources]
    lines += [f"  topic {sink.topic} --> to_spark {sink.name}" for sink in topology.spark_sinks]
    return ["Frames of Spark:", *lines] if lines else []


def connector_lines(topology: Topology) -> list[str]:
    """One line for each connector of the program, with the topic that joins it to the topology, and its guarantee."""
    if not topology.connectors:
        return []
    from hayase.connect.program import describe_connectors

    return ["Connectors:", *describe_connectors(topology.connectors)]


def form_lines(topology: Topology, config: StreamsConfig) -> list[str]:
    """One line for each sub-topology and global table: its form, and why."""
    lines = ["Forms:"]
    for subtopology, compiled in compile_subtopologies(topology, compile_options(config)).items():
        if subtopology.startswith("global"):
            number = topology.global_table_ids[topology.global_tables[int(subtopology.removeprefix("global"))].store]
            name = f"Sub-topology {number} (global)"
        else:
            name = f"Sub-topology {subtopology}"
        lines.append(f"  {name}: level {compiled.level}, {compiled.shown_form}")
    return lines
