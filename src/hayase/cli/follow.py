"""`hayase follow`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hayase.app.follower import Follower
from hayase.app.stop_request import StopRequest
from hayase.cli.load import load
from hayase.cli.options import Config, ConfigFile, read_settings
from hayase.cli.run import Target, settings_of
from hayase.query.follower_replica import FollowerStatus

_LOOK_EVERY_S = 0.25
_SAY_EVERY_S = 5.0


def follow(
    target: Target,
    config: Config = None,
    config_file: ConfigFile = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Of the follower, if there are several.")] = "default",
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Its folder; default: followers/NAME beside the state."),
    ] = None,
) -> None:
    """Keep a copy of an application's stores up to date until Ctrl-C or SIGTERM.

    It reads the application's checkpoint alone, shows every completed epoch, and all stores and partitions
    after the same epoch. `hayase state` with --follower reads it. Killed, it goes on where it was.

    Use the settings the application runs with (application.id, state.dir, checkpoint.dir).

    For example:

        hayase follow shop.py:topology

        hayase follow shop.py:topology --dir /data/shop-copy -c state.dir=/var/lib/shop
    """
    loaded = load(target)
    settings = settings_of(loaded, read_settings(config, config_file))
    follower = Follower(loaded.topology, settings, name=name, directory=directory)
    with StopRequest() as stop, follower:
        typer.echo(f"following application {settings.application_id} in {follower.folder}; Ctrl-C stops it")
        said, waited = "", _SAY_EVERY_S
        while not stop.wait(_LOOK_EVERY_S) and follower.error is None:
            waited += _LOOK_EVERY_S
            text = status_text(follower.status())
            if waited >= _SAY_EVERY_S and text != said:
                typer.echo(text)
                said, waited = text, 0.0
    if follower.error is not None:
        raise follower.error
    typer.echo(f"stopped: {status_text(follower.status())}")


def status_text(status: FollowerStatus) -> str:
    """One line.

    Example:
        >>> status_text(FollowerStatus(epoch=41, lag_epochs=2, lag_ms=130, running=True))
        'epoch 41, 2 epochs behind (130 ms)'
    """
    if status.waiting:
        return "the application has not started yet"
    if status.lag_epochs == 0:
        return f"epoch {status.epoch}, up to date" if status.epoch >= 0 else "no epoch is complete yet"
    return (
        f"epoch {status.epoch}, {status.lag_epochs} epoch{'s' if status.lag_epochs > 1 else ''} behind "
        f"({status.lag_ms} ms)"
    )
