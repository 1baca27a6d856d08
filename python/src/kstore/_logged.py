"""What all programs of tests have in common: their output in a file, an error that tells their death, and an end."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import List, Optional, Sequence, Type, TypeVar

from ._errors import KstoreError, OperatorDied, hide_frames

__tracebackhide__ = hide_frames

# How much of its output an error shows.
LOG_LINES = 20

Program = TypeVar("Program", bound="LoggedProgram")


class LoggedProgram:
    """A program whose output is in a file; as a context manager it is ended at the end."""

    # What messages call it.
    _word = "program"

    def __init__(self, command: Sequence[str], log: Path):
        self.command: List[str] = [str(part) for part in command]
        # Whether an error has told that it died.
        self.told = False
        self._log = log
        self._stopped = self._awaited = False

    def log(self) -> str:
        """What it has written to standard output and error so far."""
        try:
            return self._log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def log_end(self) -> str:
        """The last lines of its output."""
        return "\n".join(self.log().splitlines()[-LOG_LINES:])

    def check(self) -> None:
        """Raises OperatorDied if it has ended and nothing asked for that."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends it by SIGTERM, after 10 s by SIGKILL, and what it has started. Raises OperatorDied if it had died and no error told so."""
        if self._stopped:
            return
        try:
            if not self.told:
                self.check()
        finally:
            self._stopped = True
            self._end()

    def __enter__(self: Program) -> Program:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        # The first failure is what counts.
        self.told = self.told or error is not None
        self.stop()

    def _end(self) -> None:
        """Ends it."""
        raise NotImplementedError

    def _died(self, code: int) -> OperatorDied:
        """The error of its death, which counts as told."""
        self.told = True
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        lines = "".join(f"\n  {line}" for line in self.log_end().splitlines()) or " it wrote nothing"
        return OperatorDied(f"the {self._word} `{' '.join(self.command)}` {how}; its last lines:{lines}", code)

    def _not_ended(self, timeout: float) -> KstoreError:
        """The error of a wait for its end."""
        return KstoreError(
            f"the {self._word} `{' '.join(self.command)}` has not ended after {timeout:g} s; its last lines:\n{self.log_end()}"
        )
