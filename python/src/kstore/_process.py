"""The server's process: its start, and its end with this one.

The server runs as `kstore-server run -- sh …`: it starts the shell when the cluster is ready and ends when the shell does. The shell reads
its standard input, a pipe from here, and so ends on a line, or when this process is gone, however that came about.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import time
import weakref
from pathlib import Path
from typing import List, Optional, Sequence

from ._errors import StartError, hide_frames

__tracebackhide__ = hide_frames

# What the server runs: $0 is the folder, which is removed here too, since the process that made it may have been killed.
GUARD = 'echo ready; read -r _; rm -rf -- "$0"'
# How long each way of ending the server may take before the next one: its pipe, SIGTERM, SIGKILL.
END_SECONDS = 10.0
# How much of the log an error shows.
LOG_LINES = 20


class ServerProcess:
    """A running server. `directory` has its kubeconfig and its log; it goes with the server."""

    def __init__(self, server: str, flags: Sequence[str], start_timeout: float):
        """Returns when the cluster is ready. Raises StartError if it ends, or is not ready in time."""
        self.directory = Path(tempfile.mkdtemp(prefix="kstore-"))
        self.kubeconfig = self.directory / "kubeconfig"
        self.log = self.directory / "server.log"
        command: List[str] = [server, "run", "--write-kubeconfig", str(self.kubeconfig), *flags]
        command += ["--", "sh", "-c", GUARD, str(self.directory)]
        try:
            with open(self.log, "wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    # Ctrl-C is for the tests, which then end the server in order.
                    start_new_session=True,
                )
        except OSError as error:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise StartError(f"cannot run {server}: {error}") from error
        self._finalizer = weakref.finalize(self, _end, self._process, self.directory, os.getpid())
        try:
            self._await_ready(start_timeout)
        except BaseException:
            self._finalizer()
            raise

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def is_running(self) -> bool:
        """Whether the server still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Ends the server and removes its folder; on return both are gone. Does nothing the second time."""
        self._finalizer()

    def log_text(self) -> str:
        """What the server has logged so far."""
        try:
            return self.log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def _await_ready(self, timeout: float) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout
        said = b""
        while b"\n" not in said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise StartError(f"the server was not ready after {timeout} s{self._log_end()}")
            chunk = os.read(descriptor, 4096)
            if not chunk:
                raise StartError(f"the server ended at its start{self._log_end()}")
            said += chunk

    def _log_end(self) -> str:
        lines = self.log_text().splitlines()[-LOG_LINES:]
        return "".join(f"\n  {line}" for line in lines)


def _end(process: "subprocess.Popen[bytes]", directory: Path, owner: int) -> None:
    # A copy of this process by fork has the objects, but the server is not its own.
    if os.getpid() != owner:
        return
    try:
        if process.stdin is not None:
            process.stdin.write(b"\n")
            process.stdin.close()
    except OSError:
        # It has ended already.
        pass
    for signal in (None, process.terminate, process.kill):
        if signal is not None:
            signal()
        if _wait(process, END_SECONDS) is not None:
            break
    if process.stdout is not None:
        process.stdout.close()
    shutil.rmtree(directory, ignore_errors=True)


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> Optional[int]:
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
