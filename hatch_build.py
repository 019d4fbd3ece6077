"""Build the C extension of compiled calls, if this machine has a C compiler; without it calls enter through Python.

``dualad/compile/native/entry.c`` is one file; setuptools knows how each platform compiles it. A wheel with it is for
one platform and Python, one without is for all.
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

ROOM = "dualad/compile/native"


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
            library = build(root, root / ROOM if version == "editable" else root / "build" / "extension")
        except BaseException as error:
            if wanted == "1" or isinstance(error, KeyboardInterrupt):
                raise
            self.app.display_warning(f"dualad without its C extension, calls of jit enter through Python: {error}")
            return
        if version == "editable":
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(library)] = f"{ROOM}/{library.name}"


def build(root: Path, folder: Path, flags: tuple[str, ...] = ()) -> Path:
    """Compile the extension into a folder; return its path."""
    import numpy as np
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    source, quick = str(root / ROOM / "entry.c"), [] if sys.platform == "win32" else ["-O2", "-g0"]
    checksum = zlib.crc32(Path(source).read_bytes()) & 0x7FFFFFFF
    extension = Extension(
        "_entry",
        [source],
        include_dirs=[np.get_include()],
        define_macros=[("DUALAD_SOURCE", str(checksum))],
        extra_compile_args=[*quick, *flags],
        extra_link_args=list(flags),
    )
    command = build_ext(Distribution({"name": "entry", "ext_modules": [extension]}))
    with tempfile.TemporaryDirectory() as scratch:
        command.build_temp = scratch
        command.build_lib, command.force = str(folder), True
        command.ensure_finalized()
        command.run()
    return folder / command.get_ext_filename("_entry")


if __name__ == "__main__":  # python hatch_build.py [flags of the compiler]
    print(build(Path(__file__).parent, Path(__file__).parent / ROOM, tuple(sys.argv[1:])))
