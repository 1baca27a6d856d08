"""A program that the lab's server runs, so that plans can kill it and start it again."""

from __future__ import annotations

import os
import select
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence
from urllib.parse import quote

from ._errors import KstoreError, hide_frames
from ._logged import LoggedProgram

if TYPE_CHECKING:
    from ._lab import Lab

__tracebackhide__ = hide_frames

# How often the server is asked about a program that is not running, in real time.
LOOK_SECONDS = 0.05


class LabProgram(LoggedProgram):
    """A program for which time waits, a child of the server; as a context manager it is ended at the end. Made by `Lab.program`.

    It has what `Operator` has. A plan may kill it and start it again: then `pid` is that of the newest start.
    """

    def __init__(self, lab: "Lab", name: str, command: Sequence[str], log: Path):
        super().__init__(command, log)
        self._lab = lab
        # Name of the program and of its client in the lab.
        self.name = name
        self._last: Dict[str, Any] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id of the newest start."""
        return int(self._report()["process"])

    @property
    def incarnation(self) -> int:
        """How often it was started again."""
        return int(self._report()["incarnation"])

    @property
    def exit_code(self) -> Optional[int]:
        """None while it runs; negative for the signal that ended it."""
        report = self._report()
        if report["state"] == "running":
            return None
        return int(report["code"]) if "code" in report else -int(report.get("signal", 0))

    def wait(self, timeout: float = 30.0) -> int:
        """Waits until it has ended and returns its exit code, for programs that are to end by themselves. Raises KstoreError after `timeout`."""
        limit = time.monotonic() + timeout
        while (code := self.exit_code) is None:
            if time.monotonic() > limit:
                raise self._not_ended(timeout)
            time.sleep(LOOK_SECONDS)
        self._awaited = True
        return code

    def check(self) -> None:
        """Raises OperatorDied if it has ended, and neither `stop()`, `wait()` nor a plan asked for that."""
        if self._stopped or self._awaited:
            return
        code = self.exit_code
        # Plans end programs by signals.
        if code is None or (code < 0 and self._lab._had_plans):
            return
        raise self._died(code)

    def _end(self) -> None:
        self._lab.call("DELETE", f"{self._path()}?grace=10s")

    def _path(self) -> str:
        return f"/programs/{quote(self.name)}"

    def _report(self) -> Dict[str, Any]:
        # After its end the server has no report of it.
        if not self._stopped:
            self._last = dict(self._lab.call("GET", self._path()))
        return self._last

    def _watch(self) -> None:
        """Ends the waits of the cluster when the program dies, so that they tell so at once."""
        if not hasattr(os, "pidfd_open"):
            return
        try:
            while not self._stopped:
                try:
                    process = os.pidfd_open(self.pid)
                    select.select([process], [], [])
                    os.close(process)
                except ProcessLookupError:
                    pass
                if self._stopped:
                    return
                if self.exit_code is not None:
                    self._lab._api().interrupt()
                    time.sleep(LOOK_SECONDS)
        except (KstoreError, OSError):
            # The cluster has ended.
            return
