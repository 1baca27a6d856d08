"""Where the program kstore-server is."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from ._errors import StartError

PROGRAM = "kstore-server"


def find_server() -> str:
    """The path of kstore-server: KSTORE_SERVER if it is set, else the one that this package brought, else the first on PATH.

    Raises StartError if there is none.
    """
    named = os.environ.get("KSTORE_SERVER")
    if named:
        if not os.access(named, os.X_OK):
            raise StartError(f"KSTORE_SERVER names {named}, which cannot be run")
        return os.path.abspath(named)
    # Where wheels put programs: in an environment, of a user, and with `pip install --target`.
    folders = [Path(sysconfig.get_path("scripts"))]
    user = sysconfig.get_path("scripts", scheme=f"{os.name}_user") if f"{os.name}_user" in sysconfig.get_scheme_names() else None
    if user:
        folders.append(Path(user))
    folders.append(Path(__file__).resolve().parent.parent / "bin")
    folders.append(Path(sys.executable).parent)
    for folder in folders:
        if os.access(folder / PROGRAM, os.X_OK):
            return str(folder / PROGRAM)
    found = shutil.which(PROGRAM)
    if found is None:
        raise StartError(f"there is no {PROGRAM}: install the wheel of kstore, put it on PATH, or set KSTORE_SERVER")
    return found
