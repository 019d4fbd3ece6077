"""Stan's log densities and gradients, by ctypes: the compiler and headers are those of an installed ``httpstan``.

A model is compiled once, in 5 to 60 s, against a precompiled header; libraries stay in a folder. Not for: sampling.
"""

import ctypes
import subprocess
import tempfile
import zipfile
from pathlib import Path

import numpy as np

__all__ = ["Stan", "build"]

_MACROS = ("_REENTRANT", "BOOST_DISABLE_ASSERTS", "BOOST_PHOENIX_NO_VARIADIC_EXPRESSION", "_GLIBCXX_USE_CXX11_ABI=0")
_LIBRARIES = ("sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial", "tbb")


def build(source, httpstan, folder, level="-O3"):
    """Return the library of the model in the file ``source``, which is compiled where the folder has none."""
    httpstan, folder = Path(httpstan), Path(folder) / level.strip("-")
    library = folder / f"{source.stem}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    compiler = ["g++", "-std=c++17", "-w", "-fPIC", level, *(f"-D{name}" for name in _MACROS)]
    compiler += ["-isystem", str(httpstan / "include")]
    header = folder / "stan.hpp"
    if not header.with_suffix(".hpp.gch").exists():
        header.write_text("#include <stan/model/model_header.hpp>\n#include <stan/io/json/json_data.hpp>\n")
        subprocess.run([*compiler, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    text = folder / f"{source.stem}.cpp"
    subprocess.run([httpstan / "stanc", source, "--o", text], check=True, stdout=subprocess.DEVNULL)
    text.write_text(text.read_text() + "\n" + (Path(__file__).parent / "stan.cpp").read_text())
    links = ["-L", str(httpstan / "lib"), f"-Wl,-rpath,{httpstan / 'lib'}", *(f"-l{name}" for name in _LIBRARIES)]
    made = library.with_suffix(".part")
    subprocess.run([*compiler, "-include", header, "-shared", text, "-o", made, *links], check=True)
    made.rename(library)
    return library


class Stan:
    """A model with data: called with free numbers it returns the log density, up to a constant, and its gradient."""

    def __init__(self, library, data_path):
        self._library = ctypes.CDLL(str(library))
        self._library.posterior_model.restype = ctypes.c_void_p
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(data_path) as archive:
            self._model = self._library.posterior_model(archive.extract(archive.namelist()[0], folder).encode())
        if not self._model:
            raise ValueError(f"Stan refuses the data {data_path.name}")
        self._model = ctypes.c_void_p(self._model)
        self.size = self._library.posterior_size(self._model)

    def __call__(self, free):
        free, gradient, value = np.ascontiguousarray(free, float), np.empty(self.size), ctypes.c_double()
        failed = self._library.posterior_gradient(
            self._model,
            free.ctypes.data_as(ctypes.c_void_p),
            ctypes.byref(value),
            gradient.ctypes.data_as(ctypes.c_void_p),
        )
        return (np.nan, np.full(self.size, np.nan)) if failed else (value.value, gradient)
