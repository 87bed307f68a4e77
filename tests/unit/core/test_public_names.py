from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hayase


@pytest.mark.parametrize("name", hayase.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(hayase, name) is not None
    assert name in dir(hayase)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(hayase.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = [alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(seen) == hayase.__all__


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = hayase.nothing_like_this


def test_importing_hayase_loads_nothing_heavy():
    code = "import hayase, sys; print(sorted({'pyspark', 'polars', 'pyarrow'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_building_a_topology_does_not_load_pyspark():
    code = "import hayase, sys; hayase.StreamsBuilder().stream('a').to('b'); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
