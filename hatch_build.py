"""Build the C extensions, if this machine has a C compiler; without them compiled and lifted calls go through Python.

Each of ``SOURCES`` is one file; setuptools knows how each platform compiles it. A wheel with them is for one platform
and Python, one without is for all.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: what each extension is made of; it lies beside it, and has an underscore before its name
SOURCES = ("dualad/compile/native/entry.c", "dualad/numpy/direct.c")


class EntryHook(BuildHookInterface):
    """The hook that ``pyproject.toml`` names; DUALAD_EXTENSION=0 builds without the extension, 1 insists on it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into the tree (an editable install) or into the wheel."""
        wanted = os.environ.get("DUALAD_EXTENSION", "")
        if wanted == "0" or sysconfig.get_config_var("Py_GIL_DISABLED"):
            return
        root = Path(self.root)
        try:
            libraries = build(root, root if version == "editable" else root / "build" / "extension")
        except BaseException as error:
            if wanted == "1" or isinstance(error, KeyboardInterrupt):
                raise
            self.app.display_warning(f"dualad without its C extensions, calls of jit enter through Python: {error}")
            return
        if version == "editable":
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for source, library in zip(SOURCES, libraries, strict=True):
            build_data["force_include"][str(library)] = f"{Path(source).parent.as_posix()}/{library.name}"


def build(root: Path, folder: Path, flags: tuple[str, ...] = ()) -> list[Path]:
    """Compile the extensions into the rooms of a folder; return their paths."""
    import numpy as np
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    quick = [] if sys.platform == "win32" else ["-O2", "-g0"]
    made = []
    for source in SOURCES:
        name = "_" + Path(source).stem
        checksum = zlib.crc32((root / source).read_bytes()) & 0x7FFFFFFF
        extension = Extension(
            name,
            [str(root / source)],
            include_dirs=[np.get_include()],
            define_macros=[("DUALAD_SOURCE", str(checksum))],
            extra_compile_args=[*quick, *flags],
            extra_link_args=list(flags),
        )
        command = build_ext(Distribution({"name": name, "ext_modules": [extension]}))
        with tempfile.TemporaryDirectory() as scratch:
            command.build_temp = scratch
            command.build_lib, command.force = str((folder / source).parent), True
            command.ensure_finalized()
            command.run()
        made.append((folder / source).parent / command.get_ext_filename(name))
    return made


if __name__ == "__main__":  # python hatch_build.py [flags of the compiler]
    print(*build(Path(__file__).parent, Path(__file__).parent, tuple(sys.argv[1:])), sep="\n")
