"""Write docs/configuration.md from the settings themselves: `python scripts/config_page.py`."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

from hayase.core.config import StreamsConfig
from hayase.core.config_groups import CLIENTS
from hayase.core.config_keys import CLIENT_KEYS, PREFIXES_WITHOUT_EFFECT, RENAMED, WITHOUT_EFFECT
from hayase.core.config_table import SETTINGS, defaults

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

_HEAD = """# Configuration

Made by `scripts/config_page.py` from the docstring of [`StreamsConfig`](../src/hayase/core/config.py). Every key of
Kafka Streams 4.3 is known: it has the effect described here, or it is accepted and the application says at the start
why it has none. An unknown key is an error, with the nearest one that exists. Values are typed, or text as in a
properties file.

"""


def _attributes() -> dict[str, str]:
    """What the docstring says of each attribute, on one line."""
    doc = inspect.getdoc(StreamsConfig) or ""
    section = doc.split("Attributes:\n")[1].split("\nRaises:")[0]
    entries = re.split(r"\n(?=    \w+: )", "\n" + section.rstrip())
    found = {}
    for entry in entries:
        name, _, text = " ".join(entry.split()).partition(": ")
        if name:
            found[name] = text
    return found


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def page() -> str:
    """The page."""
    said, default_of = _attributes(), defaults({"HOME": "~"})
    out = [_HEAD, "| key | default | what it does |\n|---|---|---|\n"]
    for key, (attribute, _) in sorted(SETTINGS.items()):
        text = said[attribute].removeprefix(f"`{key}`").lstrip(":, ")
        default = default_of.get(attribute)
        shown = {None: "", (): ""}.get(default, f"`{default}`")  # type: ignore[arg-type]
        out.append(_row(f"`{key}`", shown, text))
    out.append("\n## Settings by prefix\n\n| keys | what they set |\n|---|---|\n")
    for prefix, attribute in CLIENTS.items():
        out.append(_row(f"`{prefix}*`", said[attribute]))
    for keys, attribute in (
        ("schema.registry.*", "schema_registry"),
        ("spark.*", "spark_properties"),
        ("app.*", "own_properties"),
    ):
        out.append(_row(f"`{keys}`", said[attribute]))
    keys_of_all = ", ".join(f"`{key}`" for key in sorted(CLIENT_KEYS))
    out.append("\n" + textwrap.fill(f"Without a prefix, for all Kafka clients: {keys_of_all}.", 120) + "\n")
    out.append("\n## Deprecated settings\n\n| deprecated name | name |\n|---|---|\n")
    out += [_row(f"`{old}`", f"`{new}`") for old, new in sorted(RENAMED.items())]
    out.append(
        "\n## Settings without effect\n\nThey are accepted, so that a configuration of Kafka Streams works as it is.\n"
        "\n| key | why it has no effect |\n|---|---|\n"
    )
    every = {**WITHOUT_EFFECT, **{f"{prefix}*": why for prefix, why in PREFIXES_WITHOUT_EFFECT.items()}}
    out += [_row(f"`{key}`", why) for key, why in sorted(every.items())]
    return "".join(out)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
