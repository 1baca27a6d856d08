"""The lab: clusters whose clock tests move, with forks, images and what their clients did."""

from __future__ import annotations

import json
import os
import re
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Type, Union
from urllib.parse import quote

from ._api import MANAGER, Api, query
from ._clock import PREFIX, Duration, LabClock, LabEventLoop, duration, format_time
from ._cluster import Cluster
from ._errors import ApiError, LabBusy, OperatorDied, UsageError, hide_frames
from ._manifests import Manifest
from ._perturb import Action, Client, Faults, LabCache, Plan, name_of, selector
from ._process import ServerProcess
from ._program import LabProgram
from ._trace import Trace

__tracebackhide__ = hide_frames

Object = Dict[str, Any]

# How long a call that lets time pass may take, in real time.
CALL_SECONDS = 3600.0
# How many of its last requests a report shows of a client that is not quiet.
REPORTED_REQUESTS = 5


class Lab:
    """A cluster with a lab, and `cluster` for what any cluster has.

        with kstore.Lab(crds="crds/") as lab:
            lab.apply(BACKUP)
            lab.advance(hours=24)

    `clock` is manual (time passes only when a call lets it), auto (to the next deadline whenever all is quiet), real, or a factor such as
    60x; `start` is the time at which a clock begins, `seed` that of all random values of the cluster's own components; `image` is a
    snapshot file from which it starts. `patience` is the real time for which calls wait for clients that are busy, unless they say it
    themselves (the server's ten seconds; more for a busy machine); forks have that of their origin. `log` is the memory of the request
    log, `clusters` the largest number of clusters. What else it takes is that of `Cluster`.
    """

    def __init__(
        self,
        *,
        clock: str = "manual",
        start: Union[datetime, str, None] = None,
        seed: Optional[int] = None,
        image: Union[str, "os.PathLike[str]", None] = None,
        patience: Optional[Duration] = None,
        log: Optional[str] = None,
        clusters: Optional[int] = None,
        kubernetes_version: Optional[str] = None,
        nodes: int = 1,
        components: Optional[Sequence[str]] = None,
        crds: Manifest = (),
        manifests: Manifest = (),
        server: Optional[str] = None,
        flags: Sequence[str] = (),
        namespace: str = "default",
        start_timeout: float = 60.0,
    ):
        given = {"--lab-clock": clock, "--lab-seed": seed, "--lab-log": log, "--lab-clusters": clusters, "--lab-image": image}
        if start is not None:
            given["--lab-start"] = start if isinstance(start, str) else _time(start)
        options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        self._root: Lab = self
        self._id = "main"
        self._patience = patience
        self._had_plans = False
        self._clock: Optional[LabClock] = None
        self._cluster = Cluster(
            kubernetes_version=kubernetes_version,
            nodes=nodes,
            components=components,
            server=server,
            flags=["--lab", *options, *flags],
            namespace=namespace,
            start_timeout=start_timeout,
        )
        # Applied here and not by the cluster: the package is no client for which time waits.
        self._first: List[Manifest] = [crds, manifests]
        self._forks: List[Lab] = []

    @classmethod
    def _of_fork(cls, origin: "Lab", answer: Object) -> "Lab":
        lab, root = cls.__new__(cls), origin._root
        lab._root, lab._id, lab._first, lab._forks = root, str(answer["id"]), [], []
        lab._patience, lab._clock, lab._had_plans = origin._patience, None, False
        process = root._cluster._running()[1]
        folder = process.directory / f"lab-{lab._id}"
        folder.mkdir(mode=0o700, exist_ok=True)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(str(answer["kubeconfig"]))
        lab._cluster = _ForkedCluster(root._cluster, process, kubeconfig)
        root._forks.append(lab)
        lab._introduce()
        return lab

    def start(self) -> "Lab":
        """Starts the server; on return the API serves and the manifests are applied. Raises StartError."""
        if self._root is not self:
            raise UsageError("a fork runs from its beginning to its end")
        self._cluster.start()
        try:
            self._introduce()
            for manifest in self._first:
                self.apply(manifest)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the programs of this cluster; a fork then ends, and the first cluster ends with its forks and the server."""
        died: Optional[OperatorDied] = None
        for lab in [*self._forks, self]:
            try:
                lab._cluster._stop_operators()
            except OperatorDied as error:
                died = died or error
        self._forks = []
        if self._root is self:
            self._cluster.stop()
        elif self in self._root._forks:
            self._root._forks.remove(self)
            self._root.call("DELETE", f"/clusters/{quote(self._id)}")
            self._cluster.stop()
        if died is not None:
            raise died

    def __enter__(self) -> "Lab":
        return self.start() if self._root is self else self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            self.stop()
        except OperatorDied:
            # The first failure is what counts.
            if error is None:
                raise

    def _introduce(self) -> None:
        # What a test does is no work that time has to wait for: its calls are answered before they return.
        self.client(MANAGER, counted=False)

    @property
    def cluster(self) -> Cluster:
        """The cluster, for objects, waits in real time, kubeconfigs and operators."""
        return self._cluster

    @property
    def id(self) -> str:
        """The cluster's identifier in the lab."""
        return self._id

    @property
    def kubeconfig(self) -> str:
        """The path of the administrator's kubeconfig."""
        return self._cluster.kubeconfig

    def apply(self, manifest: Manifest, *, namespace: Optional[str] = None) -> List[Object]:
        """Applies manifests as `Cluster.apply` does."""
        return self._cluster.apply(manifest, namespace=namespace)

    def explain(self, object: Any, *, namespace: Optional[str] = None) -> Trace:
        """Who wrote to the object, and what followed, as `Cluster.explain` does."""
        return self._cluster.explain(object, namespace=namespace)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A call of the lab's API: the decoded answer. `path` is that below `/kstore/lab/v1`. Raises ApiError for a refusal.

        Raises LabBusy if a limit ran out.
        """
        api = self._api()
        # A repeated POST happens once.
        headers = {"Idempotency-Key": uuid.uuid4().hex} if method == "POST" else {}
        try:
            return api.request(method, f"{PREFIX}{path}", body, timeout=CALL_SECONDS, headers=headers)
        except ApiError as error:
            if error.code == 504:
                raise LabBusy(str(error.status.get("message", error)), _causes(error.status)) from None
            raise

    def _api(self) -> Api:
        return self._cluster._running()[0]

    @property
    def clock(self) -> LabClock:
        """The cluster's clock, with the functions of the module `time`: for programs that take a clock."""
        if self._clock is None:
            self._clock = LabClock(self)
        return self._clock

    def event_loop(self) -> LabEventLoop:
        """A new event loop of asyncio whose timers follow the cluster's clock; for an operator in this process.

            loop = lab.event_loop()
            threading.Thread(target=loop.run_until_complete, args=[operator()], daemon=True).start()
            lab.advance(hours=1)
        """
        return LabEventLoop(self)

    def set_clock(self, mode: str, *, factor: Optional[float] = None, up_to: Optional[Duration] = None) -> Object:
        """Changes how time passes: `manual`, `auto` (up to `up_to` at a time), `scaled` (by `factor`), `real`. Returns the clock."""
        body: Object = {"mode": mode}
        if factor is not None:
            body["factor"] = factor
        if up_to is not None:
            body["upTo"] = duration(up_to)
        return dict(self.call("PUT", "/clock", body))

    def advance(
        self,
        by: Optional[Duration] = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        to: Union[datetime, str, None] = None,
        next: bool = False,
        patience: Optional[Duration] = None,
        granule: Optional[Duration] = None,
    ) -> Object:
        """Lets time pass, stop by stop: each timer of the cluster fires at its time, and clients react before time goes on.

        One of: `by`, or days, hours, minutes and seconds together; `to` a time; `next`, the next deadline. `patience` is the real time for
        which a client may be busy (that of the lab, else 10 s), `granule` the time of the cluster whose deliveries clients may get together. Returns what
        happened (`time`, `stops`, `barriers`). Raises LabBusy, which names who is busy; then the clock stands where it is.
        """
        together = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        body: Object = {}
        if by is not None:
            body["by"] = duration(by)
        if together:
            if "by" in body:
                raise UsageError("advance takes `by`, or days, hours, minutes and seconds")
            body["by"] = duration(together)
        if to is not None:
            body["to"] = to if isinstance(to, str) else _time(to)
        if next:
            body["next"] = True
        for name, value in (("patience", self._patience if patience is None else patience), ("granule", granule)):
            if value is not None:
                body[name] = duration(value)
        self._check()
        if self.clock._introduced:
            # Threads of this process may be about to wait for the cluster's time.
            self.quiet(patience=patience)
        advanced = dict(self.call("POST", "/clock/advance", body))
        if advanced["ended"] == "busy":
            busy = [_line(reason) for reason in advanced["busy"]]
            raise LabBusy(f"the clock stands at {advanced['time']}, since not all clients are quiet: {'; '.join(busy)}", busy)
        self._check()
        return advanced

    def leap(self, by: Duration) -> Object:
        """One jump forward, as of a machine that was suspended: what was due meanwhile fires late."""
        return dict(self.call("POST", "/clock/leap", {"by": duration(by)}))

    def settled(self, *, limit: Optional[Duration] = None, patience: Optional[Duration] = None) -> Object:
        """Waits until controllers, scheduler and nodes have nothing to do and all clients are quiet; a manual clock passes up to `limit`.

        Raises LabBusy, which names what is busy.
        """
        return self._settle("/settled", limit, patience)

    def quiet(self, *, patience: Optional[Duration] = None) -> Object:
        """Waits until all clients are quiet; no time passes. Raises LabBusy, which names those that are busy."""
        return self._settle("/quiet", None, patience)

    def _settle(self, path: str, limit: Optional[Duration], patience: Optional[Duration]) -> Object:
        given = {"limit": limit, "patience": self._patience if patience is None else patience}
        self._check()
        settled = dict(self.call("POST", path, {name: duration(value) for name, value in given.items() if value is not None}))
        self._check()
        return settled

    def wait(
        self,
        object: Any,
        *,
        condition: Optional[str] = None,
        matches: Optional[Object] = None,
        deleted: bool = False,
        limit: Optional[Duration] = None,
        patience: Optional[Duration] = None,
        namespace: Optional[str] = None,
    ) -> Object:
        """Waits for an object, and lets a manual clock pass meanwhile, up to `limit` (30 minutes); returns it.

        `condition`, `matches` and `deleted` are those of `Cluster.wait`, whose time is real time. Raises LabBusy.
        """
        kind, place, name = self._cluster._reference(object, namespace)
        reference = "/".join([kind.qualified, *([place] if kind.namespaced else []), name])
        given = {"condition": condition, "matches": matches, "deleted": deleted or None}
        # Without any it has to exist.
        chosen = {key: value for key, value in given.items() if value is not None} or {"matches": {}}
        body: Object = {"object": reference, **chosen}
        for key, length in (("limit", limit), ("patience", self._patience if patience is None else patience)):
            if length is not None:
                body[key] = duration(length)
        self._check()
        found = self.call("POST", "/wait", body)
        return kind.named(found) if isinstance(found, dict) else {}

    def fork(
        self,
        name: Optional[str] = None,
        *,
        seed: Optional[int] = None,
        clock: Union[str, Object, None] = None,
        components: Optional[Sequence[str]] = None,
        nodes: Optional[int] = None,
    ) -> "Lab":
        """A branch: the same objects up to now, then a future and a clock of its own. It ends with its `with`, `stop()`, or the server."""
        return self._forked({"cluster": self._id}, name, seed, clock, components, nodes)

    def forks(self, count: int) -> List["Lab"]:
        """Several forks from one moment."""
        image = f"forks-{uuid.uuid4().hex[:8]}"
        taken = self.image(image)
        try:
            return [taken.fork() for _ in range(count)]
        finally:
            taken.delete()

    def _forked(
        self,
        origin: Object,
        name: Optional[str],
        seed: Optional[int],
        clock: Union[str, Object, None],
        components: Optional[Sequence[str]],
        nodes: Optional[int],
    ) -> "Lab":
        given = {
            "name": name,
            "seed": seed,
            "clock": _clock(clock) if clock is not None else None,
            "components": list(components) if components is not None else None,
            "nodes": nodes,
        }
        body = {"from": origin, **{key: value for key, value in given.items() if value is not None}}
        return Lab._of_fork(self, self._root.call("POST", "/clusters", body))

    def image(self, name: str, *, settled: bool = False) -> "Image":
        """Takes an image of this cluster, from which others start; `settled` waits for that first."""
        body: Object = {"name": name}
        if settled:
            body["settled"] = True
        return Image(self, dict(self.call("POST", "/images", body)))

    def load_image(self, name: str, file: Union[str, "os.PathLike[str]"]) -> "Image":
        """An image of this name from a snapshot file that `Image.save` or a failed test has written."""
        return Image(self, dict(self._root._api().upload(f"{PREFIX}/images/{quote(name)}/file", Path(file), timeout=CALL_SECONDS)))

    def reset(self, to: Union["Image", str, None] = None) -> None:
        """Goes back to the image that this fork came from, or to another one, on the same port. All its connections end."""
        name = to.name if isinstance(to, Image) else to
        self._root.call("POST", f"/clusters/{quote(self._id)}/reset", {"to": name} if name is not None else {})
        self._introduce()

    def client(
        self,
        name: str,
        *,
        agent: Optional[str] = None,
        user: Optional[str] = None,
        process: Optional[int] = None,
        counted: Optional[bool] = None,
        window: Optional[Duration] = None,
        busy: Optional[bool] = None,
    ) -> Object:
        """Names a client by its user agent or user, and says of it what is given: its process, whether time waits for it, that it is busy."""
        match = {key: value for key, value in (("agent", agent), ("user", user)) if value is not None}
        given = {
            "match": match or None,
            "process": process,
            "counted": counted,
            "window": duration(window) if window is not None else None,
            "busy": busy,
        }
        body = {key: value for key, value in given.items() if value is not None}
        return dict(self.call("PUT", f"/clients/{quote(name, safe='')}", body))

    def clients(self) -> List[Object]:
        """The clients that the cluster has seen, with their state (`quiet`, `busy`, `gone`) and why they are busy."""
        return list(self.call("GET", "/clients")["clients"])

    def view(self, client: str) -> Object:
        """What a client has been shown of each kind that it reads."""
        return dict(self.call("GET", f"/clients/{quote(client, safe='')}/view"))

    def requests(self, **filters: Any) -> List[Object]:
        """The request log: by client, user, agent, verb, resource, namespace, name, code; `since` a number, at most `limit`."""
        return list(self.call("GET", query("/requests", **filters))["requests"])

    def writes(self, **filters: Any) -> List[Object]:
        """Who wrote what: by client, resource, namespace, name; `since` a revision, at most `limit`."""
        return list(self.call("GET", query("/writes", **filters))["writes"])

    def stop_node(self, name: str) -> None:
        """Switches a simulated node off."""
        self.call("POST", f"/nodes/{quote(name)}/stop", {})

    def start_node(self, name: str) -> None:
        """Switches a simulated node on again."""
        self.call("POST", f"/nodes/{quote(name)}/start", {})

    def node_fault(
        self,
        node: str,
        fault: str,
        value: Optional[str] = None,
        *,
        after: Optional[Duration] = None,
        duration: Optional[Duration] = None,
        every: Optional[Duration] = None,
    ) -> List[Object]:
        """Gives a simulated node a fault, such as `crash` for a `duration`, beside those that it has. Returns all of the node."""
        body: Object = {"fault": fault, **_given_times(after=after, duration=duration, every=every)}
        if value is not None:
            body["value"] = value
        return list(self.call("POST", f"/nodes/{quote(node, safe='')}/faults", body)["faults"])

    def node_faults(self, node: str) -> List[Object]:
        """The faults of a simulated node, each with its `state`: `waiting`, `active`, `over`."""
        return list(self.call("GET", f"/nodes/{quote(node, safe='')}/faults")["faults"])

    def heal_node(self, node: str, fault: Optional[str] = None) -> None:
        """Withdraws the faults of a simulated node, or those of one name."""
        self.call("DELETE", query(f"/nodes/{quote(node, safe='')}/faults", fault=fault))

    def program(
        self,
        command: Sequence[str],
        *,
        name: str,
        service_account: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        cwd: Union[str, "os.PathLike[str]", None] = None,
    ) -> LabProgram:
        """Starts a program for which time waits, as a child of the server: a client called `name`, known by its process.

        Its KUBECONFIG has the rights of `service_account`, which is made if it is not there, or without one those of an administrator. It
        ends, and its death is told, as that of `Cluster.operator`; a plan may kill it and start it again.
        """
        if isinstance(command, str) or not command:
            raise UsageError(f"give the program's command as a list, such as ['kopf', 'run', 'operator.py'], not {command!r}")
        log = self._cluster._directory() / f"program-{uuid.uuid4().hex}.log"
        body: Object = {
            "name": name,
            "command": [str(part) for part in command],
            "env": {"PYTHONUNBUFFERED": "1", **(env or {})},
            "folder": os.path.abspath(cwd or "."),
            "output": str(log),
        }
        if service_account is None:
            body["user"] = name
        else:
            place = self._cluster.namespace
            self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service_account, "namespace": place}})
            body["serviceAccount"] = f"{place}/{service_account}"
        self.call("POST", "/programs", body)
        started = LabProgram(self, name, command, log)
        self._cluster._operators.append(started)
        return started

    def faults(self, seed: int = 0) -> Faults:
        """Seeded faults of requests, in place of those before: see `Faults`."""
        return Faults(self, seed)

    def cache(self, name: str, *, routes: Sequence[Union[Client, Object]] = (), window: Optional[int] = None) -> LabCache:
        """A watch cache that can stand still, and the routes to it.

        `routes` are programs, names of clients, or routes as the lab's API has them, whose reads are answered from it; `window` is the number
        of changes before its revision that its watches still have.
        """
        self.call("PUT", f"/caches/{quote(name)}", {"window": window} if window is not None else {})
        if routes:
            added = [{**route, "cache": name} if isinstance(route, dict) else {"client": selector(route, None, None), "cache": name} for route in routes]
            self.call("PUT", "/routes", [*added, *self.call("GET", "/routes")])
        return LabCache(self, name)

    def plan(self, *actions: Action, name: str = "") -> Plan:
        """Runs actions in their order, each at its trigger: a request, an event or a write that is observed, never the real time.

            with lab.plan(lab.kill(operator).after("create", "configmaps")):
                lab.advance(hours=1)
        """
        self._had_plans = True
        return Plan(self, self.call("POST", "/plans", {"name": name, "actions": [action.body() for action in actions]}))

    def kill(self, program: Client, *, start: Union[str, Object] = "now", cache: Union[LabCache, str, None] = None) -> Action:
        """An action: SIGKILL to a program, and a new start: `now`, `never`, or `{"when": TRIGGER}`, then reading from a cache."""
        chosen = cache.name if isinstance(cache, LabCache) else cache
        return Action("kill", name_of(program), start=start, cache=chosen)

    def term(self, program: Client, *, start: Union[str, Object] = "now") -> Action:
        """An action: SIGTERM to a program, and a new start after its end."""
        return Action("term", name_of(program), start=start)

    def pause(self, program: Client, *, until: Object) -> Action:
        """An action: a program stands still until a trigger."""
        return Action("pause", name_of(program), until=until)

    def action(self, name: str, **parameters: Any) -> Action:
        """An action by its name in the lab's API, such as `freeze`, `thaw`, `recreate`, `flip`, `take-lease`, or a fault."""
        return Action(name, **parameters)

    def _check(self) -> None:
        self._cluster._check_operators()

    def report(self) -> str:
        """For people: the clock, the clients for which time waits, the last requests of those that are not quiet, and the faults that hit.

        A failed test's report has it.
        """
        clock = self.call("GET", "/clock")
        lines = [f"clock {clock['mode']} at {clock['time']}, {clock['skew']} from real time, {clock['stops']} stops"]
        for client in self.clients():
            if not client["counted"]:
                continue
            why = "; ".join(client["why"])
            lines.append(f"client {client['name']}: {client['state']}" + (f": {why}" if why else ""))
            if client["state"] == "quiet":
                continue
            for asked in self.requests(client=client["name"])[-REPORTED_REQUESTS:]:
                place = "/".join(part for part in (asked["resource"], asked["namespace"], asked["name"]) if part)
                lines.append(f"  {asked['time']}  {asked['verb'] or 'get'} {place} → {asked['code'] or 'no answer yet'}")
        return "\n".join(lines + self._perturbed())

    def _perturbed(self) -> List[str]:
        """The faults that hit, and the plans."""
        try:
            rules = self.call("GET", "/faults/counts")["rules"]
            plans = self.call("GET", "/plans")["plans"]
        except ApiError:
            # An older server has neither.
            return []
        lines = [f"fault {rule['name']}: {rule['hits']} hits" for rule in rules if rule["hits"]]
        for plan in plans:
            states = ", ".join(f"{one['action']['action']} {one['state']}" for one in plan["actions"])
            lines.append(f"plan {plan['id']}: {plan['state']}: {states}")
        return lines

    def keep(self, folder: Union[str, "os.PathLike[str]"], name: str) -> List[Path]:
        """Writes what shows a failure again into a folder: a snapshot file of this cluster, and its request log as JSON.

        The files are called after `name`. `kstore.Lab(image=FILE)` starts from the snapshot.
        """
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "lab"
        snapshot, log = where / f"{stem}.snapshot", where / f"{stem}.requests.json"
        image = self.image(f"kept-{uuid.uuid4().hex[:8]}")
        try:
            image.save(snapshot)
        finally:
            image.delete()
        log.write_text(json.dumps(self.requests(), indent=1))
        return [snapshot, log]


class Image:
    """A state from which clusters start. Made by `Lab.image`."""

    def __init__(self, lab: Lab, answer: Object):
        self._lab = lab
        self.name = str(answer["name"])
        self.revision = int(answer["revision"])

    def fork(
        self,
        name: Optional[str] = None,
        *,
        seed: Optional[int] = None,
        clock: Union[str, Object, None] = None,
        components: Optional[Sequence[str]] = None,
        nodes: Optional[int] = None,
    ) -> Lab:
        """A cluster that begins here."""
        return self._lab._forked({"image": self.name}, name, seed, clock, components, nodes)

    def save(self, path: Union[str, "os.PathLike[str]"], *, keys: bool = False) -> None:
        """Writes the image into a snapshot file, from which `Lab(image=…)`, `load_image` and `--lab-image` start.

        `keys` includes the private keys of service accounts and of the cluster's authority, so that its tokens stay valid.
        """
        where = query(f"{PREFIX}/images/{quote(self.name)}/file", keys="true" if keys else None)
        self._lab._root._api().download(where, Path(path), timeout=CALL_SECONDS)

    def delete(self) -> None:
        """Forgets the image; clusters from it live on."""
        self._lab._root.call("DELETE", f"/images/{quote(self.name)}")


class _ForkedCluster(Cluster):
    """The cluster of a fork; the process is that of the first cluster."""

    def __init__(self, first: Cluster, process: ServerProcess, kubeconfig: Path):
        super().__init__(namespace=first.namespace, server=first._server)
        self._process, self._kubeconfig = process, kubeconfig
        self._api = Api(kubeconfig)

    def start(self) -> Cluster:
        raise UsageError("a fork runs already")

    def stop(self) -> None:
        self._process, self._api = None, None

    def _directory(self) -> Path:
        return Path(self.kubeconfig).parent


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        raise UsageError(f"say in which time zone {value} is, for example with tzinfo=datetime.timezone.utc")
    return format_time(value)


def _clock(value: Union[str, Object]) -> Object:
    """A clock as the command line writes it, as the body of a call."""
    if not isinstance(value, str):
        return value
    factor = value[:-1] if value.endswith("x") else ""
    return {"mode": "scaled", "factor": float(factor)} if factor else {"mode": value}


def _causes(status: Object) -> List[str]:
    return [str(cause.get("message", "")) for cause in (status.get("details") or {}).get("causes") or []]


def _line(reason: Object) -> str:
    who = f"client {reason['client']}" if reason.get("client") else reason["part"]
    return f"{who}: {reason['what']}"


def _given_times(**times: Optional[Duration]) -> Object:
    """The times that are not None, as the lab reads them."""
    return {name: duration(time) for name, time in times.items() if time is not None}
