"""`--command-config`: settings of Kafka's clients for commands about topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.cli.main import run_cli


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("security.protocol=SSL\n", [], "nothing says which: give --bootstrap-servers"),
        ("bootstrap.servers=h:1\n", ["--log-dir", "x"], "leave one out"),
        ("bootstrap.servers=h:1\nssl.ca.locaton=x\n", [], "did you mean 'ssl.ca.location'?"),
        ("bootstrap.servers=h:1\nsasl.password\n", [], "line 2: this is not key=value"),
        ("bootstrap.servers=h:1\nsasl.password=${env:NOBODY_SET_THIS}\n", [], "has no such variable"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, more: list[str], words: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    assert run_cli(["topics", "list", "--command-config", str(file), *more]) == 1
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
