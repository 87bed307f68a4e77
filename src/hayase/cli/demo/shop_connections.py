"""What lies between the shop and the world: commands by HTTP, the payment service, and the read models."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from hayase.cli.demo.example import example_file
from hayase.cli.demo.shop_databases import ShopDatabases
from hayase.cli.demo.shop_services import Command, application_id, hayase_command
from hayase.core.errors import StorageError
from hayase.core.private_files import private_folder, write_file
from hayase.patterns import outbox
from hayase.patterns.command_source import command_source
from hayase.testing.servers import HOST, free_ports

_TEXT = "org.apache.kafka.connect.storage.StringConverter"
_CONVERTERS = {"key.converter": _TEXT, "value.converter": _TEXT, "header.converter": _TEXT}
_SEED = "1"


@dataclass(frozen=True, slots=True)
class ShopConnections:
    """Addresses of the shop, and the processes behind them.

    Attributes:
        orders_url, stock_url: where commands go.
        worker_url: of the REST interface of the worker that runs the connectors.
        commands: of the processes, by name.
    """

    orders_url: str
    stock_url: str
    worker_url: str
    commands: dict[str, Command]


def connections(folder: Path, log_folder: Path, databases: ShopDatabases) -> ShopConnections:
    """Choose ports, and write the configurations of connectors into the folder.

    Raises:
        StorageError: `NO_FREE_PORT`.
    """
    ports = free_ports(4)
    if ports is None:
        raise StorageError("NO_FREE_PORT", f"there are not four free ports on {HOST}: stop what uses them")
    orders, stock, worker, payments = (f"http://{HOST}:{port}" for port in ports)
    connectors = {
        "order-commands": command_source("order", {"webhook.port": str(ports[0])}),
        "stock-commands": command_source("stock", {"webhook.port": str(ports[1])}),
    }
    log = {"log.dir": log_folder}
    commands = {
        "read-models": hayase_command(
            "read-models", "run", str(example_file("shop/read_models.py")),
            settings={**log, "application.id": application_id("read-models")},
            environment={"SHOP_DATABASE": databases.read_models},
        )
    }  # fmt: skip
    if databases.payments is not None and databases.capture is not None:
        connectors["payment-requests"] = {
            "connector.class": "HttpSink", "topics": "payment-commands", "tasks.max": "2", "http.url": f"{payments}/",
            "cloudevents": "true", **_CONVERTERS,
        }  # fmt: skip
        captured = {**databases.capture, "topic.prefix": "payments", "slot.name": "payments"}
        connectors["payment-outbox"] = outbox.table_connector(captured)
        commands["payment-service"] = _payment_service(ports[3], databases.payments)
    commands["connectors"] = hayase_command(
        "connect", *_written(folder, connectors), "--listen", worker, settings={**log, "group.id": "shop"}
    )
    return ShopConnections(orders, stock, worker, commands)


def _payment_service(port: int, database: str) -> Command:
    server = [sys.executable, "-m", "granian", "--interface", "asgi", "--no-ws", "--log-level", "warning"]
    address = ["--host", HOST, "--port", str(port), "hayase.cli.demo.shop_faults:app"]
    return Command([*server, *address], {"PAYMENTS_DATABASE": database, "PAYMENTS_SEED": _SEED})


def _written(folder: Path, connectors: dict[str, dict[str, str]]) -> list[str]:
    private_folder(folder)
    files = []
    for name, config in connectors.items():
        file = folder / f"{name}.json"
        write_file(file, json.dumps({"name": name, "config": config}, indent=2).encode())
        files.append(str(file))
    return files
