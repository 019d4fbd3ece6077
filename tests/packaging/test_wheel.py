"""What users install: the wheel and the sdist hold what they should, and nothing else.

That they install into a clean environment, and each extra by itself, is `make package`.
"""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import dualad

ROOT = Path(__file__).resolve().parents[2]
#: how the names of the extensions begin in a wheel
EXTENSIONS = ("dualad/compile/native/_entry.", "dualad/numpy/_direct.")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(wheel.namelist())
    info = f"dualad-{dualad.__version__}.dist-info/"
    assert {name.split("/")[0] for name in names} == {"dualad", "pytest_dualad.py", info.rstrip("/")}
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dualad").rglob("*.py")}
    pages = {f"dualad/cli/errors/{path.name}" for path in (ROOT / "docs" / "reference" / "errors").glob("*")}
    made = {name for name in names if name.startswith(EXTENSIONS)}
    assert {name for name in names if name.startswith("dualad/")} == modules | pages | made | {"dualad/py.typed"}
    assert {info + "METADATA", info + "RECORD", info + "entry_points.txt", info + "licenses/LICENSE"} <= names


@pytest.mark.parametrize("extension", ["0", "1"])
def test_the_wheel_is_for_all_machines_or_has_the_extension(extension, tmp_path):
    if extension == "1" and not shutil.which("cc"):
        pytest.skip("no C compiler")
    pytest.importorskip("setuptools")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = {**os.environ, "DUALAD_EXTENSION": extension}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        made = [name for name in archive.namelist() if name.startswith(EXTENSIONS)]
        root_is_pure = b"Root-Is-Purelib: true" in archive.read(f"dualad-{dualad.__version__}.dist-info/WHEEL")
    assert len(made) == len(EXTENSIONS) * int(extension) and root_is_pure == (extension == "0")
    assert path.name.endswith("-py3-none-any.whl") == (extension == "0")


def test_the_metadata(wheel):
    info = f"dualad-{dualad.__version__}.dist-info/"
    metadata = email.message_from_bytes(wheel.read(info + "METADATA"))
    assert metadata["Version"] == dualad.__version__ and metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11" and "# dualad" in metadata.get_payload()
    required = metadata.get_all("Requires-Dist")
    assert sorted(r for r in required if "extra ==" not in r) == ["numpy<3,>=2.0", "optree>=0.13"]
    assert set(metadata.get_all("Provides-Extra")) >= {"scipy", "viz", "examples", "oracle", "test", "docs", "lint"}
    assert "dualad = dualad.cli.main:main" in wheel.read(info + "entry_points.txt").decode()


def test_the_sdist_can_be_tested_and_documented(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "Makefile",
        "dualad/py.typed",
        "tests/conftest.py",
        "docs/conf.py",
    ):
        assert name in names
    unwanted = [
        n for n in names if "__pycache__" in n or n.startswith((".venv", "build", ".git/", "docs/reference/gen"))
    ]
    assert not unwanted


@pytest.mark.parametrize("file", ["CITATION.cff", ".ci/conda/recipe.yaml"])
def test_files_beside_the_package_name_its_version(file):
    (version,) = re.findall(r'^\s*version: "?([\d.]+)"?$', (ROOT / file).read_text(), re.MULTILINE)
    assert version == dualad.__version__
