"""What the documentation says is there, is there; its code is the code that runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench import chart

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_of_the_project(page: Path) -> None:
    text = _CODE.sub("", page.read_text("utf-8"))
    targets = [target for target in _LINK.findall(text) if "://" not in target]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_every_anchor_leads_to_a_heading() -> None:
    def anchor(heading: str) -> str:
        return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")

    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "bench" / "README.md"]
    headings = {
        page.resolve(): {anchor(line) for line in page.read_text("utf-8").splitlines() if line.startswith("#")}
        for page in pages
    }
    for page in pages:
        for path, name in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text("utf-8")):
            target = (page.parent / path).resolve() if path else page.resolve()
            assert target not in headings or name in headings[target], f"{page.name}: {path}#{name}"


def test_the_program_in_the_readme_is_the_quickstart_that_is_tested() -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert program is not None
    quickstart = (ROOT / "examples" / "quickstart.py").read_text("utf-8")
    assert program.group(1).strip() in quickstart


@pytest.mark.long
def test_what_the_readme_says_that_the_program_prints_is_what_it_prints() -> None:
    shown = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert shown is not None
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "quickstart.py"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == shown.group(1)


def test_the_chart_shows_what_was_measured() -> None:
    assert chart.CHART.read_text("utf-8") == chart.drawn(chart.bars(chart.RESULTS.read_text("utf-8").splitlines()))


def test_every_operator_that_the_features_name_is_there() -> None:
    from hayase.dsl import KGroupedStream, KStream, KTable, StreamsBuilder

    named = re.search(r"\*\*DSL\*\*: `([^`]+)`", (ROOT / "docs/features.md").read_text("utf-8"))
    assert named is not None
    names = re.split(r"[,;]\s+", named.group(1))
    owners = (StreamsBuilder, KStream, KTable, KGroupedStream)
    assert not [name for name in names if not any(hasattr(owner, name) for owner in owners)]


def test_each_line_of_the_compatibility_page_names_a_test_or_says_why_not() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.split(" | ")]
        for line in page.splitlines()
        if re.search(r" \| (yes|differs|no) \| ", line)
    ]
    assert len(rows) > 150
    for what, kind, remark, test in rows:
        assert _LINK.search(test) if kind == "yes" else remark, what
        assert kind == "no" or _LINK.search(test), what


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_readmes_commands_work_as_they_stand_there_and_so_does_a_program_started_by_python(tmp_path: Path) -> None:
    commands = re.search(
        r"```\n(hayase topics create purchases.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    assert commands is not None
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/quickstart.py").write_text((ROOT / "examples/quickstart.py").read_text("utf-8"))
    (tmp_path / "examples/app.py").write_text(
        "from quickstart import topology\nfrom hayase import StreamsApp\nif __name__ == '__main__':\n"
        "    app = StreamsApp(topology, {'application.id': 'again'})\n    app.run_to_end()\n    "
        "print(app.store('spending').get('ada').value)\n"
    )
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("HAYASE_", "XDG_", "PYTHONPATH"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    script = f"{commands.group(1)}\npython examples/app.py"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert '{"purchases":1,"cents":1250}' in done.stdout
    assert done.stdout.splitlines()[-1] == "{'purchases': 1, 'cents': 1250}"
    assert "Traceback" not in done.stderr and "BrokenPipeError" not in done.stderr, done.stderr
