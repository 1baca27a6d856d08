"""A program that acts on a cluster while tests run: an operator, a controller, a webhook's server.

It runs in a session of its own, with a shell beside it that reads a pipe from here and kills all of that session when the pipe closes, as it
does when this process is gone, however that came about.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Callable, Dict, Optional, Sequence, Union

from ._errors import UsageError, hide_frames
from ._logged import LoggedProgram

__tracebackhide__ = hide_frames

# The shell becomes the program, so that the process id and exit code are the program's.
GUARD = 'exec 3<&0; { read -r _; kill -s KILL 0; } <&3 3<&- >/dev/null 2>&1 & exec "$@" </dev/null 3<&-'
# How long the program may take to end after SIGTERM, and after SIGKILL.
END_SECONDS = 10.0


class Operator(LoggedProgram):
    """A running program; as a context manager it is ended at the end. Made by `Cluster.operator`."""

    _word = "operator"

    def __init__(
        self, command: Sequence[str], env: Dict[str, str], cwd: Union[str, "os.PathLike[str]", None], log: Path, on_end: Callable[[], None]
    ):
        """Starts the program. `on_end` is called in a thread of its own when it has ended."""
        if isinstance(command, str) or not command:
            raise UsageError(f"give the operator's command as a list, such as ['kopf', 'run', 'operator.py'], not {command!r}")
        super().__init__(command, log)
        program = self.command[0]
        # A path may be relative to cwd; then the shell says what is wrong.
        if "/" not in program and shutil.which(program, path=env.get("PATH")) is None:
            raise UsageError(f"there is no {program} on PATH")
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                ["sh", "-c", GUARD, "sh", *self.command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        self._ended = threading.Event()
        threading.Thread(target=_await_end, args=(self._process, self._ended, on_end), daemon=True).start()

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._process.pid

    @property
    def exit_code(self) -> Optional[int]:
        """None while it runs; negative for the signal that ended it."""
        return self._process.returncode if self._ended.is_set() else None

    def wait(self, timeout: float = 30.0) -> int:
        """Waits until it has ended and returns its exit code, for programs that are to end by themselves. Raises KstoreError after `timeout`."""
        if not self._ended.wait(timeout):
            raise self._not_ended(timeout)
        self._awaited = True
        return self._process.returncode

    def check(self) -> None:
        """Raises OperatorDied if it has ended, and neither `stop()` nor `wait()` asked for that."""
        if not self._ended.is_set() or self._stopped or self._awaited:
            return
        raise self._died(self._process.returncode)

    def _end(self) -> None:
        if not self._ended.is_set():
            self._process.terminate()
            self._ended.wait(END_SECONDS)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._ended.wait(END_SECONDS)


def _await_end(process: "subprocess.Popen[bytes]", ended: threading.Event, on_end: Callable[[], None]) -> None:
    process.wait()
    ended.set()
    on_end()
