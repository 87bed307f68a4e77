"""Write docs/sql/settings.md from the table of settings: `python scripts/sql_settings_page.py`."""

from __future__ import annotations

from pathlib import Path

from hayase.sql.settings import SETTINGS, Setting, Use

PAGE = Path(__file__).resolve().parent.parent / "docs" / "sql" / "settings.md"

_HEAD = """# Settings of SQL

Made by `scripts/sql_settings_page.py` from the table that `SET` and `LIST PROPERTIES` use. A setting is honoured,
accepted (it has no effect here, and `SET` says so with the reason) or refused. Settings that begin with
`ksql.streams.` are settings of the queries' topologies, see [Configuration](../configuration.md); those that begin with
`ksql.functions.` are handed to functions. Any other name is an error. `ALTER SYSTEM` is refused: `SET` counts for a
script, and the configuration for all.
"""
_OF_SESSIONS = """
## Settings of a script or session

`SET 'name' = 'value';`, or `-c name=value` at the start.

"""
_OF_SERVERS = """
## Settings of a program or server

Only at the start: `hayase sql run shop.sql -c name=value`. `SET` refuses them.

"""
_TABLE = "| setting | default | use | meaning |\n|---|---|---|---|\n"


def _row(name: str, setting: Setting) -> str:
    default = "" if setting.default is None else f"`{setting.default}`" if setting.default else "empty"
    meaning = setting.meaning.replace("|", "\\|")
    return f"| `{name}` | {default} | {setting.use.value} | {meaning} |\n"


def page() -> str:
    """The page."""
    out = [_HEAD]
    for head, of_server in ((_OF_SESSIONS, False), (_OF_SERVERS, True)):
        chosen = [(name, SETTINGS[name]) for name in sorted(SETTINGS) if SETTINGS[name].of_server is of_server]
        out += [head, _TABLE]
        for use in Use:
            out += [_row(name, setting) for name, setting in chosen if setting.use is use]
    return "".join(out)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
