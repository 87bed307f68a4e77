"""What an application leaves on the disk when it stops, as a user runs it: in processes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.test_demo import ROOT, run_hayase

from hayase.state.environment import crash_marker

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_states_are_closed_when_an_application_stops_so_that_they_survive_a_restart_of_the_machine(
    tmp_path: Path,
) -> None:
    def run(*arguments: str, stdin: str | None = None) -> tuple[str, str]:
        done = run_hayase(*arguments, folder=tmp_path, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, done.stderr

    program = str(ROOT / "examples/quickstart.py")
    for topic in ("purchases", "spending"):
        run("topics", "create", topic, "--partitions", "1")
    run("topics", "produce", "purchases", stdin='ada:{"item": "book", "cents": 1250}\n')
    run("run", program, "--to-end")
    (state,) = (tmp_path / "state" / "hayase" / "quickstart" / "state").iterdir()
    written = crash_marker.read(state)
    assert written is not None and written.clean

    crash_marker.write(
        state, crash_marker.CrashMarker("of another start of the machine", written.checkpoint_id, clean=True)
    )
    run("topics", "produce", "purchases", stdin='ada:{"item": "pen", "cents": 300}\n')
    inode = (state / "data.mdb").stat().st_ino
    run("run", program, "--to-end")
    assert (state / "data.mdb").stat().st_ino == inode  # else it was deleted and rebuilt
    found, _ = run("topics", "consume", "spending", "--from-beginning", "--stop-at-end")
    assert [line.split("\t") for line in found.splitlines()] == [
        ["ada", '{"purchases":1,"cents":1250}'],
        ["ada", '{"purchases":2,"cents":1550}'],
    ]
