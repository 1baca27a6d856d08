"""The errors of this package; each says what to do."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


class KstoreError(Exception):
    """The base of all errors of this package."""


def hide_frames(failure: Any) -> bool:
    """For `__tracebackhide__` of modules: pytest leaves their frames out of a failure that an error of this package tells."""
    return isinstance(failure.value, KstoreError)


class UsageError(KstoreError):
    """A call that cannot mean anything: a manifest without a kind, a kind that the cluster does not have."""


class StartError(KstoreError):
    """The server is missing or did not become ready; the message has the end of its log."""


class WaitTimeout(KstoreError):
    """An object did not become what was waited for. The message has its last state and what led there.

    `last` is the object as it was last seen; None if it did not exist.
    """

    def __init__(self, message: str, last: Optional[Dict[str, Any]]):
        super().__init__(message)
        self.last = last


class OperatorDied(KstoreError):
    """A program that `Cluster.operator` started ended by itself. The message has its last lines; `exit_code` is negative for a signal."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


class LabBusy(KstoreError):
    """A call of the lab ran out of its limit. The message says what was waited for, `busy` has a line for each thing that is busy."""

    def __init__(self, message: str, busy: List[str]):
        super().__init__(message)
        self.busy = busy


class ApiError(KstoreError):
    """The API refused a request. `code` is the HTTP status, `reason` that of the Kubernetes Status, `status` the whole of it."""

    def __init__(self, code: int, status: Dict[str, Any], request: str):
        self.code = code
        self.status = status
        self.reason = str(status.get("reason", ""))
        said = [f"{request}: {code} {self.reason}".rstrip(), str(status.get("message", ""))]
        super().__init__(": ".join(part for part in said if part))
