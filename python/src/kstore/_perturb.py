"""What a lab can do to a cluster's clients: faults of requests, caches that lag, and plans of actions. Nothing of it is what a real cluster
could not do, unless it says so."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Type, Union
from urllib.parse import quote

from ._clock import Duration, duration
from ._errors import KstoreError, hide_frames
from ._program import LOOK_SECONDS, LabProgram

if TYPE_CHECKING:
    from ._lab import Lab

__tracebackhide__ = hide_frames

Object = Dict[str, Any]
# A client: a program, or the name of a client in the lab.
Client = Union[LabProgram, str]


class Faults:
    """Seeded faults of requests. Made by `Lab.faults`; each method adds a rule and sets all of them at once.

        lab.faults(seed=7).touch(0.3).lost_answers(0.1, client=operator, verbs=["create"])

    `probability` is that of each request. Which requests: `client` is a program or the name of a client, `agent` a user agent, `user` a user;
    `verbs`, `resources` (`plural.group`), `subresources`, `namespaces`, `names` are lists of globs. `first` affects only the first so many
    requests of a client with one verb and path, `times` bounds the hits among them. Without a client, all but the cluster's own components
    are affected. As a context manager the rules end at the end.
    """

    def __init__(self, lab: "Lab", seed: int):
        self._lab = lab
        self._seed = seed
        self._rules: List[Object] = []

    def touch(self, probability: float, **which: Any) -> "Faults":
        """Somebody changes the object before an update that carries a resourceVersion: a real conflict follows."""
        return self.rule("touch", probability, **which)

    def too_many(self, probability: float, *, seconds: int = 1, **which: Any) -> "Faults":
        """429, with `Retry-After`; nothing is performed."""
        return self.rule("too-many", probability, seconds=seconds, **which)

    def errors(self, probability: float, *, how: str = "timed-out", **which: Any) -> "Faults":
        """500 of an etcd that elects a leader (`timed-out` or `leader-changed`); nothing is performed."""
        return self.rule("error", probability, how=how, **which)

    def unavailable(self, probability: float, *, how: str = "503", **which: Any) -> "Faults":
        """The connection is reset (`reset`), or `503`; nothing is performed."""
        return self.rule("unavailable", probability, how=how, **which)

    def timeouts(self, probability: float, *, after: Duration = 0, **which: Any) -> "Faults":
        """504, after so much real time; nothing is performed."""
        return self.rule("timeout", probability, after=duration(after), **which)

    def lost_answers(self, probability: float, *, how: str = "504", **which: Any) -> "Faults":
        """The request is performed, and its answer does not arrive: `reset`, `504`, or `silence`."""
        return self.rule("lost-answer", probability, how=how, **which)

    def slow(self, probability: float, by: Duration, *, up_to: Duration = 0, **which: Any) -> "Faults":
        """The request is performed late, by this real time and a random part of `up_to`."""
        return self.rule("slow", probability, **{"for": duration(by), "upTo": duration(up_to)}, **which)

    def cut(self, probability: float, *, how: str = "end", after: Optional[int] = None, **which: Any) -> "Faults":
        """A watch ends after some events: `end` as after its time, `reset` between two events, `frame` within one."""
        return self.rule("cut", probability, how=how, after=after, **which)

    def expire(self, probability: float, **which: Any) -> "Faults":
        """A watch gets 410, when it starts or before its next event."""
        return self.rule("expire", probability, **which)

    def stale_lists(self, probability: float, *, by: int, **which: Any) -> "Faults":
        """A list with `resourceVersion=0` shows a state of up to `by` revisions ago."""
        return self.rule("stale-lists", probability, by=by, **which)

    def conflicts(self, probability: float, **which: Any) -> "Faults":
        """409 although nothing has changed. No real server does this: a program may break that is right."""
        return self.rule("conflict", probability, illegal=True, **which)

    def rule(
        self,
        fault: str,
        probability: float,
        *,
        client: Optional[Client] = None,
        agent: Optional[str] = None,
        user: Optional[str] = None,
        verbs: Sequence[str] = (),
        resources: Sequence[str] = (),
        subresources: Sequence[str] = (),
        namespaces: Sequence[str] = (),
        names: Sequence[str] = (),
        **parameters: Any,
    ) -> "Faults":
        """A rule by the name of its fault in the lab's API, with the parameters of the fault."""
        request = {"verbs": verbs, "resources": resources, "subresources": subresources, "namespaces": namespaces, "names": names}
        body = {
            "fault": fault,
            "probability": probability,
            "client": selector(client, agent, user),
            "request": {name: list(value) for name, value in request.items() if value} or None,
            **parameters,
        }
        self._rules.append({name: value for name, value in body.items() if value is not None})
        self._lab.call("PUT", "/faults", {"seed": self._seed, "rules": self._rules})
        return self

    def counts(self) -> List[Object]:
        """For each rule its name, its fault, and the numbers of hits and of draws that could not happen in a legal way."""
        return list(self._lab.call("GET", "/faults/counts")["rules"])

    def clear(self) -> None:
        """Removes all rules."""
        self._rules = []
        self._lab.call("DELETE", "/faults")

    def __enter__(self) -> "Faults":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.clear()


class LabCache:
    """A watch cache that stands still when it is told to, as another kube-apiserver's may. Made by `Lab.cache`.

    As a context manager it is removed at the end, and its clients see the newest state.
    """

    def __init__(self, lab: "Lab", name: str):
        self._lab = lab
        # Name of the cache in the lab.
        self.name = name

    def freeze(self, *resources: str, at: Optional[int] = None) -> "LabCache":
        """Stands still for these kinds (`plural.group`; all if none), at the newest revision or an older one."""
        body: Object = {"resources": list(resources)}
        if at is not None:
            body["at"] = at
        self._lab.call("POST", f"{self._path()}/freeze", body)
        return self

    def thaw(self, *resources: str, step: Optional[int] = None) -> "LabCache":
        """Delivers what it has held back, in order; with `step` so many changes of each kind."""
        body: Object = {"resources": list(resources)}
        if step is not None:
            body["step"] = step
        self._lab.call("POST", f"{self._path()}/thaw", body)
        return self

    def report(self) -> Object:
        """Where it stands: the revision for each kind that is frozen."""
        return dict(self._lab.call("GET", self._path()))

    def delete(self) -> None:
        """Removes the cache: its clients see the newest state, never an older one."""
        self._lab.call("DELETE", self._path())

    def _path(self) -> str:
        return f"/caches/{quote(self.name)}"

    def __enter__(self) -> "LabCache":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.delete()


class Action:
    """An action of a plan with its trigger, by which it happens once; without a trigger at once. Made by `Lab.kill`, `Lab.action` and others."""

    def __init__(self, name: str, program: Optional[str] = None, **parameters: Any):
        given = {"action": name, "program": program, **parameters}
        self._body = {name: value for name, value in given.items() if value is not None}
        self._program = program

    def after(self, verb: str, resource: str, **which: Any) -> "Action":
        """When such a request has been performed, before its client has the answer.

        Further: `client` (the program of the action if not given), `name`, `namespace`, `subresource`, `nth` (1), and `where`, an expression
        of CEL over `old`, `new` and `request`.
        """
        return self._request("done", verb, resource, **which)

    def before(self, verb: str, resource: str, **which: Any) -> "Action":
        """When such a request has arrived, before it is performed; with what `after` takes."""
        return self._request("arrived", verb, resource, **which)

    def _request(self, phase: str, verb: str, resource: str, *, client: Optional[Client] = None, **which: Any) -> "Action":
        who = name_of(client) if client is not None else self._program
        return self.when({"request": given(client=who, verb=verb, resource=resource, phase=phase, **which)})

    def at_event(self, resource: str, *, client: Optional[Client] = None, **which: Any) -> "Action":
        """When an event of a watch is due: `client`, `type` (`ADDED`, `MODIFIED`, `DELETED`), `name`, `namespace`, `where`, `nth`, `phase`."""
        who = name_of(client) if client is not None else self._program
        return self.when({"event": given(client=who, resource=resource, **which)})

    def at_write(self, resource: str, *, by: Optional[Client] = None, **which: Any) -> "Action":
        """When an object changes: `by` a client, `name`, `namespace`, `where`, `nth`."""
        return self.when({"write": given(by=name_of(by) if by is not None else None, resource=resource, **which)})

    def when_quiet(self, client: Optional[Client] = None, *, nth: Optional[int] = None) -> "Action":
        """When a client, or all of them, have become quiet."""
        return self.when({"quiet": given(client=name_of(client) if client is not None else None, nth=nth)})

    def at_time(self, after: Duration) -> "Action":
        """When so much of the cluster's time has passed since the action before it."""
        return self.when({"time": {"after": duration(after)}})

    def when(self, trigger: Object) -> "Action":
        """At a trigger as the lab's API writes it."""
        self._body["trigger"] = trigger
        return self

    def together(self) -> "Action":
        """The action waits for its trigger from when the one before it does, and not only after that has happened."""
        self._body["with"] = "previous"
        return self

    def times(self, count: int) -> "Action":
        """A fault hits so many matching requests in a row."""
        self._body["times"] = count
        return self

    def body(self) -> Object:
        """As the lab's API has it."""
        return self._body


class Plan:
    """A running plan. Made by `Lab.plan`; as a context manager it ends at the end, with all that its actions began."""

    def __init__(self, lab: "Lab", answer: Object):
        self._lab = lab
        # Identifier in the lab.
        self.id = str(answer["id"])

    def report(self) -> Object:
        """The plan's state, and that of each action."""
        return dict(self._lab.call("GET", self._path()))

    @property
    def state(self) -> str:
        """`running`, `done`, `failed` (a held request had to go on), or `not-reached`."""
        return str(self.report()["state"])

    def wait(self, timeout: float = 30.0) -> str:
        """Waits, in real time, until the plan no longer runs, and returns its state. Raises KstoreError after `timeout` seconds.

        A killed program is started again by then: `settled` then waits for it.
        """
        limit = time.monotonic() + timeout
        while (report := self.report())["state"] == "running":
            if time.monotonic() > limit:
                states = ", ".join(f"{one['action']['action']} is {one['state']}" for one in report["actions"])
                raise KstoreError(f"the plan {self.id} still runs after {timeout:g} s: {states}")
            time.sleep(LOOK_SECONDS)
        return str(report["state"])

    def events(self, since: int = 0) -> List[Object]:
        """What has happened, with what fired it."""
        return list(self._lab.call("GET", f"{self._path()}/events?since={since}")["events"])

    def resume(self) -> None:
        """Lets held requests go on."""
        self._lab.call("POST", f"{self._path()}/resume", {})

    def step(self, name: str, phase: str = "begin") -> None:
        """Says that a step of the test begins, or ends, for triggers `{"step": {"name": …}}`."""
        self._lab.call("POST", f"{self._path()}/steps", {"name": name, "phase": phase})

    def end(self) -> None:
        """Ends the plan, and all that its actions began."""
        self._lab.call("DELETE", self._path())

    def _path(self) -> str:
        return f"/plans/{quote(self.id)}"

    def __enter__(self) -> "Plan":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.end()


def name_of(client: Client) -> str:
    """The name of a client in the lab."""
    return client if isinstance(client, str) else client.name


def given(**members: Any) -> Object:
    """The members that are given."""
    return {name: value for name, value in members.items() if value is not None}


def selector(client: Optional[Client], agent: Optional[str], user: Optional[str]) -> Optional[Object]:
    """Which clients, as the lab's API has it."""
    return given(program=name_of(client) if client is not None else None, agent=agent, user=user) or None
