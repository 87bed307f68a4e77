"""Options of `hayase demo` that do not go together."""

from __future__ import annotations

import pytest

from hayase.cli.main import run_cli


def test_the_shop_takes_no_options_of_the_other_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["demo", "--shop", "--sql"]) == 1
    assert "--shop runs to its end on the embedded log: leave out --sql" in capsys.readouterr().err


def test_too_few_orders_to_compare_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["demo", "--orders", "10"]) == 2
    assert "10 is too few to compare; give 1000 or more" in capsys.readouterr().err


def test_the_demo_with_a_database_takes_no_options_of_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["demo", "--cdc", "--kafka", "localhost:9092"]) == 1
    assert "--cdc runs to its end on the embedded log: leave out --sql" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--kill", "--apart", "--postgres"])
def test_options_of_the_shop_are_refused_without_it(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["demo", option]) == 1
    assert "--apart, --kill and --postgres are of the shop: add --shop" in capsys.readouterr().err
