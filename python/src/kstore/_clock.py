"""The clock of a cluster for programs: with the functions of the module `time`, and as the clock of an asyncio event loop."""

from __future__ import annotations

import asyncio
import json
import math
import os
import selectors
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from ._api import Stream, query
from ._errors import KstoreError, hide_frames

if TYPE_CHECKING:
    from ._lab import Lab

__tracebackhide__ = hide_frames

# A duration: seconds, a timedelta, or as Go writes it (`1h30m`), or days (`3d`).
Duration = Union[int, float, timedelta, str]

PREFIX = "/kstore/lab/v1"
# How exact the timers of an event loop are, in seconds.
RESOLUTION = 0.001
# How long the server may take to know of a wait, in real time.
REGISTER_SECONDS = 10.0
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# The client that this process is in the lab while it waits for the cluster's time.
PROCESS = "kstore-python-clock"


class LabClock:
    """The clock of a cluster, with the functions of the module `time`; `sleep` ends at the cluster's time, in order with its timers.

    A program in this process that sleeps so is waited for: from the first sleep on, the lab counts this process as a client.
    """

    def __init__(self, lab: "Lab"):
        self._lab = lab
        self._lock = threading.Lock()
        self._introduced = False
        # The newest reading of `monotonic`, and by how much it is ahead of the cluster's time.
        self._newest, self._ahead = float("-inf"), 0.0

    def now(self) -> datetime:
        """The cluster's time."""
        return parse_time(str(self._lab.call("GET", "/clock")["time"]))

    def time(self) -> float:
        """Seconds since 1970."""
        return self.now().timestamp()

    def monotonic(self) -> float:
        """Seconds that never go back, also if the cluster's time leaps backward."""
        read = self.time()
        with self._lock:
            if read + self._ahead < self._newest:
                self._ahead = self._newest - read
            self._newest = read + self._ahead
            return self._newest

    def sleep(self, seconds: float) -> None:
        """Returns when this time of the cluster has passed, for which another call has to let it pass."""
        self._introduce()
        self._lab.call("GET", query("/clock/wait", **{"for": duration(seconds)}))

    def _introduce(self) -> None:
        """Names this process as a client, so that the clock waits for what it does at a time that it has waited for."""
        with self._lock:
            if not self._introduced:
                self._lab.client(PROCESS, agent=PROCESS, process=os.getpid())
                self._introduced = True


class LabEventLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of a cluster. Made by `Lab.event_loop`.

    `asyncio.sleep`, `call_later`, `wait_for` and all other timers of the loop are waits at the server: the clock stops at each in order
    with the cluster's own timers, and goes on when this process is quiet. Sockets, pipes and processes are in real time as always.
    """

    def __init__(self, lab: "Lab"):
        self._lab = lab
        self._seconds = 0.0
        # One connection for the wait, and one for questions meanwhile.
        self._stream, self._questions = lab._api().stream(), lab._api().stream()
        # What the server is asked to wait for, in units of the resolution since 1970.
        self._due: Optional[int] = None
        super().__init__(_LabSelector(self))
        # The server's times are given to the microsecond: timers within a millisecond are due together.
        self._clock_resolution = RESOLUTION
        lab.clock._introduce()
        self._read()

    def time(self) -> float:
        """Seconds of the cluster's time since 1970, as of the last time at which the loop waited."""
        return self._seconds

    def run_forever(self) -> None:
        self._read()
        super().run_forever()

    def close(self) -> None:
        """Closes the loop and its connection to the lab."""
        super().close()
        self._due = None
        self._stream.close()
        self._questions.close()

    def _read(self) -> None:
        # A backward leap does not turn the loop's time back: timers keep their remaining time.
        self._seconds = max(self._seconds, self._clock()[0])

    def _clock(self) -> Tuple[float, float]:
        """The cluster's time, and the earliest time for which a client waits."""
        code, text = self._questions.ask(f"{PREFIX}/clock")
        if code >= 400:
            raise KstoreError(f"the cluster's clock cannot be read: {code}: {text}")
        clock = json.loads(text)
        waited = clock.get("next")
        return seconds_of(clock), seconds_of(waited) if waited else float("inf")

    def _wait(self, seconds: float) -> Stream:
        """Waits at the server for a time of the loop; the answer comes to the stream."""
        # The next millisecond, so that the timer is due then.
        due = math.ceil((self._seconds + seconds) / RESOLUTION)
        if self._due != due:
            self._leave()
            self._due = due
            until = EPOCH + timedelta(seconds=due * RESOLUTION)
            self._stream.send(query(f"{PREFIX}/clock/wait", until=format_time(until)))
            # From when on the server knows of the wait, the clock cannot pass its time.
            limit = time.monotonic() + REGISTER_SECONDS
            while not self._knows(until.timestamp()) and time.monotonic() < limit:
                time.sleep(RESOLUTION)
        return self._stream

    def _knows(self, until: float) -> bool:
        """Whether the clock stops at this time, or is there."""
        now, waited = self._clock()
        return now >= until or waited <= until

    def _arrived(self) -> bool:
        """Whether the wait has ended; then the loop's time is what its answer says."""
        answer = self._stream.poll()
        if answer is None:
            return False
        self._due = None
        code, text = answer
        if code >= 400:
            raise KstoreError(f"the wait for the cluster's time ended with {code}: {text}")
        self._seconds = max(self._seconds, seconds_of(json.loads(text)))
        return True

    def _leave(self) -> None:
        """Ends a wait that has no answer yet."""
        if self._due is not None:
            self._due = None
            self._stream.close()


class _LabSelector(selectors.DefaultSelector):
    """Waits for files, or for a time of the cluster."""

    def __init__(self, loop: LabEventLoop):
        super().__init__()
        self._loop = loop

    def select(self, timeout: Optional[float] = None) -> List[Tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if timeout is None:
            found = super().select(None)
            self._loop._read()
            return found
        stream = self._loop._wait(timeout)
        # The answer may be here already, in the buffer of TLS, where no selector sees it.
        if self._loop._arrived():
            return super().select(0)
        self.register(stream, selectors.EVENT_READ)
        try:
            while True:
                found = super().select(None)
                mine = [pair for pair in found if pair[0].fileobj is stream]
                if mine and self._loop._arrived():
                    return [pair for pair in found if pair[0].fileobj is not stream]
                if len(found) > len(mine):
                    self._loop._read()
                    return [pair for pair in found if pair[0].fileobj is not stream]
        finally:
            self.unregister(stream)


def duration(value: Duration) -> str:
    """A duration as the lab reads it."""
    if isinstance(value, str):
        return value
    length = value if isinstance(value, timedelta) else timedelta(seconds=value)
    return f"{round(length.total_seconds() * 1000)}ms"


def format_time(value: datetime) -> str:
    """A time as the lab reads it."""
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(clock: Dict[str, Any]) -> float:
    """The member `time` of an answer, in seconds since 1970."""
    return parse_time(str(clock["time"])).timestamp()


def parse_time(text: str) -> datetime:
    """A time that the lab has written."""
    # Python before 3.11 reads neither a Z nor more or fewer than six digits of a second.
    whole, _, rest = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole).replace(microsecond=int((rest + "000000")[:6]), tzinfo=timezone.utc)
