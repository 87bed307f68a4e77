"""The folder that Spark is started from."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from hayase.core.cache import cache_root, cached_folder
from hayase.core.errors import FolderError

_NEEDED = ("bin", "jars")


def light_spark_home(cache: Path | None = None) -> Path | None:
    """A `SPARK_HOME` with the scripts and jars of the installed PySpark, and without its zipped Python sources.

    Spark puts `$SPARK_HOME/python/lib/pyspark.zip` before everything else on the path of each Python process that it
    starts. Nothing compiled can be kept in a zip, so each of them would compile PySpark again, for a second and more;
    from here they import the package that is installed. Good for local masters only: YARN ships that very zip.

    Args:
        cache: the folder it is made in; default `hayase.core.cache.cache_root()`.

    Returns:
        `None` if PySpark is not installed with its jars, or the cache cannot be written.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    installed = Path(spec.origin).parent
    if not all((installed / name).is_dir() for name in _NEEDED):
        return None
    place = hashlib.blake2b(str(installed).encode(), digest_size=8).hexdigest()
    try:
        return cached_folder((cache or cache_root()) / f"spark-{place}", lambda folder: _link(folder, installed))
    except (OSError, FolderError):
        return None


def _link(folder: Path, installed: Path) -> None:
    for name in _NEEDED:
        (folder / name).symlink_to(installed / name)
