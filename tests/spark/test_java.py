"""Which Java is chosen, from what a machine has; and the wrapper of the bundled one."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fanlog.spark import java
from fanlog.spark.java import INSTALL, Java, JavaNotFound, choose_java, wrapper_home

BUNDLED = Path("/bundled")
TELLS = 'openjdk version "{}" 2025-04-15\nOpenJDK Runtime Environment\n'


def machine(**versions: str | OSError):
    """Answers for the Javas of a machine, by the folder that `bin/java` is in."""

    def ask(path: Path) -> str:
        said = versions.get(path.parent.parent.name, FileNotFoundError())
        if isinstance(said, OSError):
            raise said
        return TELLS.format(said) if said[:1].isdigit() else said

    return ask


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A path with a `java`; what it answers is for the machine to say."""
    program = tmp_path / "onpath" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program.parent)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2", "26-ea"])
def test_java_home_comes_first(path, version):
    environ = {"JAVA_HOME": "/opt/home", "PATH": path}
    found = choose_java(environ, machine(home=version, onpath="21"), BUNDLED)
    assert found == Java(home=Path("/opt/home"))


def test_the_path_comes_next(path):
    assert choose_java({"PATH": path}, machine(onpath="17.0.1"), BUNDLED) == Java(home=None)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("1.8.0_392", "JAVA_HOME=/opt/home is Java 8, older than 17"),
        ("11.0.2", "JAVA_HOME=/opt/home is Java 11, older than 17"),
        ("no java here", "JAVA_HOME=/opt/home does not tell its version"),
        (FileNotFoundError(), "JAVA_HOME=/opt/home has no bin/java"),
        (PermissionError(13, "Permission denied"), "cannot be started: Permission denied"),
        (OSError("fails with exit code 1"), "cannot be started: fails with exit code 1"),
    ],
)
def test_one_that_will_not_do_is_passed_over(path, answer, reason):
    environ = {"JAVA_HOME": "/opt/home", "PATH": path}
    assert choose_java(environ, machine(home=answer, onpath="17"), None) == Java(home=None)
    assert choose_java(environ, machine(home=answer, onpath="8"), BUNDLED).is_bundled
    with pytest.raises(JavaNotFound) as caught:
        choose_java(environ, machine(home=answer, onpath="8"), None)
    assert reason in caught.value.message
    assert f"{path}/java is Java 8, older than 17" in caught.value.message


def test_the_bundled_one_serves_a_machine_without():
    assert choose_java({}, machine(), BUNDLED) == Java(home=BUNDLED, is_bundled=True)


def test_without_any_a_sentence_says_what_to_install():
    with pytest.raises(JavaNotFound) as caught:
        choose_java({"JAVA_HOME": ""}, machine(), None)
    assert caught.value.message == (
        f"Spark needs Java (none on the path, and JAVA_HOME is not set): {INSTALL}"
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 3", "exit code 3"), ("sleep 60", "gives no answer")],
    ids=["fails", "hangs"],
)
def test_a_broken_program_says_why(tmp_path, monkeypatch, script, reason):
    monkeypatch.setattr(java, "VERSION_WAIT_S", 0.2)
    program = tmp_path / "java"
    program.write_text(
        f"#!/bin/sh\nexec {script}\n" if "sleep" in script else f"#!/bin/sh\n{script}\n"
    )
    program.chmod(0o755)
    with pytest.raises(OSError, match=reason):
        java.ask_version(program)


def test_the_wrapper_drops_one_argument_and_keeps_the_others_as_they_are(tmp_path):
    home = tmp_path / "it's here"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nfor argument in "$@"; do printf "%s\\n" "<$argument>"; done\n')
    program.chmod(0o755)
    wrapper = wrapper_home(home, tmp_path / "cache") / "bin" / "java"
    given = [
        "-cp",
        "a b:*",
        "--add-modules=jdk.incubator.vector",
        "",
        "-Dx=$HOME",
        "--add-modules=x",
    ]
    said = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-cp>", "<a b:*>", "<>", "<-Dx=$HOME>", "<--add-modules=x>"]


def test_many_make_the_wrapper_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: wrapper_home(BUNDLED, tmp_path / "cache"), range(64)))
    (home,) = homes
    assert [file.name for file in (home / "bin").iterdir()] == ["java"]
    assert wrapper_home(Path("/another"), tmp_path / "cache") != home


def test_the_bundled_java_is_there_and_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin-not:/bin-not")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    home = java.prepare_java()
    assert home is not None
    assert home.is_relative_to(tmp_path)
    monkeypatch.undo()
    subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"], check=True
    )


def test_without_the_extra_one_sentence_says_what_to_install():
    program = "import sys; sys.modules['pyspark'] = None; import fanlog.spark.filter_column"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: fanlog.spark needs PySpark, which is not installed:"
        " pip install 'fanlog[spark]'"
    )
