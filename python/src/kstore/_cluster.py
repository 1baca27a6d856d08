"""A cluster: the server's process, and what tests ask of it."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Type, Union
from urllib.parse import quote

from ._api import MANAGER, Api, Kind, query
from ._binary import find_server
from ._certificate import ServingCertificate, issue
from ._errors import ApiError, KstoreError, OperatorDied, UsageError, WaitTimeout, hide_frames
from ._expectation import expectation
from ._manifests import Manifest, objects_of
from ._operator import Operator
from ._process import ServerProcess
from ._program import LabProgram
from ._trace import Trace

__tracebackhide__ = hide_frames

Object = Dict[str, Any]

# How long a CustomResourceDefinition may take to be served.
ESTABLISH_SECONDS = 30.0
# Kinds that explain nothing: heartbeats, and what tells of other writes.
UNEXPLAINED = ("leases", "events")
# For how many writes the server says what changed.
EXPLAINED_CHANGES = 200
# How many trees and lines `last_writes` has.
LAST_TREES = 5
LAST_LINES = 60
LAST_WARNINGS = 5
# How long one kubectl may take.
KUBECTL_SECONDS = 60.0
# How long a report may take: the server's states are read for 20 seconds at most.
REPORT_SECONDS = 40.0
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class Cluster:
    """A cluster in memory, in a process of its own that ends with this one.

    As a context manager it is started at the beginning and ended at the end; `start()` and `stop()` do the same by hand.

    `kubernetes_version` is the version of Kubernetes whose API is served, such as "1.34"; if None, that of the variable
    KSTORE_KUBERNETES_VERSION, else the program's default. `nodes` is the number of simulated nodes; `components` those of apiserver, controllers, scheduler and kubelet-sim that run, all if
    None; `crds` and then `manifests` are applied at the start; `server` names the program, else see `find_server`; `flags` are further
    ones of `kstore-server run`; `namespace` is where objects without a namespace belong.

    Any number of clusters may run at once: each has a port and a folder of its own. A cluster whose Python process dies, however that
    comes about, ends by itself; if it has been forked, when its copies have ended, too.
    """

    def __init__(
        self,
        *,
        kubernetes_version: Optional[str] = None,
        nodes: int = 3,
        components: Optional[Sequence[str]] = None,
        crds: Manifest = (),
        manifests: Manifest = (),
        server: Optional[str] = None,
        flags: Sequence[str] = (),
        namespace: str = "default",
        start_timeout: float = 60.0,
    ):
        self.namespace = namespace
        self._crds = crds
        self._manifests = manifests
        self._server = server
        self._start_timeout = start_timeout
        self._flags = ["--nodes", str(nodes), *flags]
        if components is not None:
            self._flags += ["--components", ",".join(components)]
        if kubernetes_version is not None:
            self._flags += ["--kubernetes-version", kubernetes_version]
        self._process: Optional[ServerProcess] = None
        self._api: Optional[Api] = None
        self._kubeconfig: Optional[Path] = None
        self._parent: Optional[Cluster] = None
        self._views: List[Cluster] = []
        self._operators: List[Union[Operator, LabProgram]] = []

    def start(self) -> "Cluster":
        """Starts the server; on return the API serves and the manifests are applied. Raises StartError."""
        if self._process is not None:
            raise UsageError("the cluster runs already")
        self._process = ServerProcess(self._server or find_server(), self._flags, self._start_timeout)
        try:
            self._kubeconfig = self._process.kubeconfig
            self._api = Api(self._kubeconfig)
            self.apply(self._crds)
            self.apply(self._manifests)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends its operators and the server; on return its process and files are gone. Does nothing if there is none.

        Raises OperatorDied at the end if an operator had ended by itself and nothing has told so.
        """
        try:
            self._stop_operators()
        finally:
            process, self._process, self._api = self._process, None, None
            if process is not None:
                process.stop()

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            self.stop()
        except OperatorDied:
            # The first failure is what counts.
            if error is None:
                raise

    def in_namespace(self, name: str) -> "Cluster":
        """The same cluster with another default namespace, which is made if it is not there, and a kubeconfig that names it.

        It has no end of its own: it ends with this one.
        """
        api, process = self._running()
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        view = _View(namespace=name, server=self._server)
        view._api, view._process, view._parent = api, process, self
        self._views.append(view)
        view._kubeconfig = self._directory() / f"kubeconfig-{name}"
        whole = (self._parent or self)._kubeconfig
        assert whole is not None
        text = re.sub(r"\n    cluster: \S+\n", rf"\g<0>    namespace: {name}\n", whole.read_text(), count=1)
        view._kubeconfig.touch(mode=0o600)
        view._kubeconfig.write_text(text)
        return view

    @property
    def kubeconfig(self) -> str:
        """The path of the administrator's kubeconfig; the file goes with the cluster."""
        self._running()
        return str(self._kubeconfig)

    @property
    def env(self) -> Dict[str, str]:
        """The environment of this process with KUBECONFIG, for programs that a test starts."""
        return {**os.environ, "KUBECONFIG": self.kubeconfig}

    @property
    def url(self) -> str:
        """The API's URL: `https://127.0.0.1:PORT`."""
        return self._running()[0].url

    @property
    def ca(self) -> str:
        """The certificate of the authority that signed the API's certificate, as PEM."""
        return self._running()[0].ca

    def token(self, service_account: str = "kstore", *, namespace: Optional[str] = None, cluster_role: Optional[str] = "cluster-admin") -> str:
        """A bearer token of a service account, which is made if it is not there; for clients that take a URL, `ca` and a token.

        `cluster_role` is bound to the account in all namespaces; with None it has the rights that it has. The token expires after the
        API's usual hour.
        """
        place = namespace or self.namespace
        subject = {"kind": "ServiceAccount", "name": service_account, "namespace": place}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service_account, "namespace": place}}
        self.apply(account)
        if cluster_role is not None:
            rbac = "rbac.authorization.k8s.io"
            self.apply(
                {
                    "apiVersion": f"{rbac}/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": f"{place}:{service_account}:{cluster_role}"},
                    "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": cluster_role},
                    "subjects": [subject],
                }
            )
        path = f"/api/v1/namespaces/{quote(place)}/serviceaccounts/{quote(service_account)}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.request("POST", path, request)["status"]["token"])

    def kubeconfig_of(self, service_account: str, *, namespace: Optional[str] = None, cluster_role: Optional[str] = None) -> str:
        """The path of a kubeconfig with a token of a service account, which is made if it is not there; it goes with the cluster.

        For operators that are to have the rights of their own manifests and no more; `cluster_role` is bound to it as by `token()`.
        """
        place = namespace or self.namespace
        token = self.token(service_account, namespace=place, cluster_role=cluster_role)
        path = self._directory() / f"kubeconfig-of-{place}-{service_account}"
        path.touch(mode=0o600)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "kstore",
                    "cluster": {"server": self.url, "certificate-authority-data": base64.b64encode(self.ca.encode()).decode()},
                }
            ],
            "users": [{"name": service_account, "user": {"token": token}}],
            "contexts": [{"name": "kstore", "context": {"cluster": "kstore", "user": service_account, "namespace": place}}],
            "current-context": "kstore",
        }
        # JSON is YAML.
        path.write_text(json.dumps(config, indent=2))
        return str(path)

    def serving_certificate(self, *names: str) -> ServingCertificate:
        """A certificate of the cluster's authority for a server of the test, such as a webhook; for this machine if no name is given.

        The API server calls a webhook by `url` under the URL's host name, and by `service` under NAME.NAMESPACE.svc. The component
        controllers must run: it signs.
        """
        _, process = self._running()
        folder = process.directory / f"certificate-{uuid.uuid4().hex}"
        program = self._server or find_server()
        return issue(program, self.kubeconfig, folder, names or ("localhost", "127.0.0.1", "::1"))

    def kubectl(self, *arguments: str, input: Optional[str] = None, timeout: float = KUBECTL_SECONDS) -> str:
        """What the installed kubectl prints with these arguments, in this namespace; for what has no method here, such as `exec`.

        Raises KstoreError, with what it says on standard error, if it fails or takes longer than `timeout` seconds.
        """
        env = self.env
        program = shutil.which("kubectl")
        if program is None:
            raise UsageError("there is no kubectl on PATH")
        shown = " ".join(["kubectl", *arguments])
        try:
            done = subprocess.run(
                [program, *arguments],
                env=env,
                # Without input it must not read that of the tests.
                input=input or "",
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as error:
            raise KstoreError(f"{shown} has not ended after {timeout:g} s") from error
        if done.returncode != 0:
            raise KstoreError(f"{shown} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def report(
        self,
        path: Union[str, "os.PathLike[str]"],
        *,
        since: Optional[int] = None,
        title: Optional[str] = None,
        failure: str = "",
    ) -> Path:
        """Saves the history of this cluster, or of this namespace, as one HTML file, which a browser opens without the cluster.

        It has each write with its author and its cause, and the objects at each revision, from the revision `since` on, and what the
        scheduler said about pods. `title` says what it is about, `failure` what failed. Values of Secrets are hidden. Raises KstoreError if
        there is none.
        """
        file = Path(path)
        command = [str(self._server or find_server()), "report", str(file), "--kubeconfig", self.kubeconfig]
        command += [] if since is None else ["--since", str(since)]
        command += [] if self._parent is None else ["-n", self.namespace]
        command += [] if title is None else ["--title", title]
        command += ["--failure", "-"] if failure else []
        try:
            done = subprocess.run(command, input=failure, capture_output=True, encoding="utf-8", errors="replace", timeout=REPORT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise KstoreError(f"the report has not ended after {REPORT_SECONDS} s") from error
        if done.returncode != 0:
            raise KstoreError(f"no report: {done.stderr.strip()}")
        return file

    def operator(
        self,
        command: Sequence[str],
        *,
        env: Optional[Dict[str, str]] = None,
        cwd: Union[str, "os.PathLike[str]", None] = None,
        service_account: Optional[str] = None,
    ) -> Operator:
        """Starts a program that acts on the cluster; it ends with this cluster, or at the end of the test if it is a test's.

        When it ends by itself, waits of this cluster and its namespaces raise OperatorDied at once, with its last lines; other failures of
        a test have these in their report. KUBECONFIG is the cluster's, with `service_account` that of `kubeconfig_of`; `env` has further
        variables, and Python's output is not buffered.
        """
        api, process = self._running()
        kubeconfig = self.kubeconfig if service_account is None else self.kubeconfig_of(service_account)
        environment = {**self.env, "PYTHONUNBUFFERED": "1", "KUBECONFIG": kubeconfig, **(env or {})}
        log = process.directory / f"operator-{uuid.uuid4().hex}.log"
        started = Operator(command, environment, cwd, log, api.interrupt)
        self._operators.append(started)
        return started

    @property
    def operators(self) -> List[Union[Operator, LabProgram]]:
        """Those that act here: its own, and those of the cluster that it is a namespace of."""
        return self._operators + (self._parent.operators if self._parent is not None else [])

    def _check_operators(self) -> None:
        for operator in self.operators:
            operator.check()

    def _stop_operators(self) -> None:
        """Of its namespaces, too. Raises OperatorDied at the end."""
        died: Optional[OperatorDied] = None
        for view in self._views:
            try:
                view._stop_operators()
            except OperatorDied as error:
                died = died or error
        for operator in self._operators:
            try:
                operator.stop()
            except OperatorDied as error:
                died = died or error
        self._views, self._operators = [], []
        if died is not None:
            raise died

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._running()[1].pid

    @property
    def version(self) -> Tuple[int, int]:
        """The version of Kubernetes that the API says it has: (1, 37)."""
        version = self.request("GET", "/version")
        return int(version["major"]), int(str(version["minor"]).rstrip("+"))

    def log(self) -> str:
        """What the server has logged; only warnings, unless RUST_LOG asks for more."""
        return self._running()[1].log_text()

    def client(self) -> Any:
        """An ApiClient of the package `kubernetes`, for its typed and dynamic clients; each call makes a new one."""
        try:
            from kubernetes import config  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError as error:
            raise UsageError("client() needs the package kubernetes: pip install 'kstore[client]'") from error
        return config.new_client_from_config(config_file=self.kubeconfig)  # type: ignore[no-untyped-call, unused-ignore]

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """One request to the API: the decoded answer. Raises ApiError for a refusal."""
        return self._running()[0].request(method, path, body, content_type)

    def apply(self, manifest: Manifest, *, namespace: Optional[str] = None) -> List[Object]:
        """Applies manifests by server-side apply, in their order, and returns the objects as they are stored.

        A manifest is a dict, a text of YAML or JSON, a `Path` of a file or folder, or a sequence of these. After a
        CustomResourceDefinition its kind is served. Fields that another manager owns are taken over. Raises ApiError for the first
        refusal; what came before it stays.
        """
        api, _ = self._running()
        applied = []
        for item in objects_of(manifest):
            kind = api.kind_of(item["apiVersion"], item["kind"])
            metadata = item["metadata"]
            path = kind.path(metadata.get("namespace") or namespace or self.namespace, metadata["name"])
            path = query(path, fieldManager=MANAGER, force="true")
            stored = api.request("PATCH", path, item, "application/apply-patch+yaml")
            if kind.qualified == "customresourcedefinitions.apiextensions.k8s.io":
                stored = self.wait(stored, condition="Established", timeout=ESTABLISH_SECONDS)
                api.kinds()
            applied.append(stored)
        return applied

    def get(self, object: Any, *, namespace: Optional[str] = None) -> Optional[Object]:
        """The object that `KIND/NAME`, a manifest or a model of `kubernetes` names; None if it does not exist."""
        kind, place, name = self._reference(object, namespace)
        try:
            found = self.request("GET", kind.path(place, name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return dict(found)

    def delete(self, object: Any, *, namespace: Optional[str] = None) -> None:
        """Asks for the object's deletion; `wait(object, deleted=True)` waits for it. Raises ApiError if it does not exist."""
        kind, place, name = self._reference(object, namespace)
        self.request("DELETE", kind.path(place, name))

    def list(
        self,
        kind: str,
        *,
        labels: Union[str, Dict[str, str], None] = None,
        fields: Optional[str] = None,
        namespace: Optional[str] = None,
        all_namespaces: bool = False,
    ) -> List[Object]:
        """The objects of a kind, in order of name: those of one namespace unless `all_namespaces`.

        `labels` is a selector as kubectl takes it (`app=web,tier!=cache`) or a dict of labels, `fields` a selector of fields.
        """
        found = self._running()[0].kind_named(kind)
        if isinstance(labels, dict):
            labels = ",".join(f"{name}={value}" for name, value in labels.items())
        place = None if all_namespaces else namespace or self.namespace
        items = self.request("GET", query(found.path(place), labelSelector=labels, fieldSelector=fields))["items"]
        return [found.named(item) for item in items]

    def patch(
        self,
        object: Any,
        patch: Union[Object, Sequence[Object]],
        *,
        type: Optional[str] = None,
        subresource: Optional[str] = None,
        namespace: Optional[str] = None,
    ) -> Object:
        """Changes an object and returns it as it is stored: a dict is a merge patch, a list a JSON patch.

        `type="strategic"` is kubectl's patch of built-in kinds, which merges lists; `subresource` is `status`, for example.
        """
        media = PATCHES.get(type or ("merge" if isinstance(patch, dict) else "json"))
        if media is None:
            raise UsageError(f"the type of a patch is {', '.join(PATCHES)}, not {type!r}")
        kind, place, name = self._reference(object, namespace)
        path = kind.path(place, name) + (f"/{quote(subresource)}" if subresource else "")
        return dict(self.request("PATCH", query(path, fieldManager=MANAGER), patch, media))

    def scale(self, object: Any, replicas: int, *, namespace: Optional[str] = None) -> None:
        """Sets the replicas of anything that has a scale, of custom kinds too."""
        self.patch(object, {"spec": {"replicas": replicas}}, subresource="scale", namespace=namespace)

    def logs(
        self,
        pod: Any,
        *,
        container: Optional[str] = None,
        previous: bool = False,
        tail: Optional[int] = None,
        namespace: Optional[str] = None,
    ) -> str:
        """What a container of a pod has written; a pod is given by its name alone, too. `tail` is the number of last lines."""
        kind, place, name = self._reference(f"pod/{pod}" if isinstance(pod, str) and "/" not in pod else pod, namespace)
        if kind.qualified != "pods":
            raise UsageError(f"{kind.kind} {name} has no logs; give a pod")
        parameters = {"container": container, "previous": "true" if previous else None, "tailLines": tail}
        api = self._running()[0]
        return str(api.request("GET", query(f"{kind.path(place, name)}/log", **parameters), accept="*/*"))

    def events(self, object: Any, *, namespace: Optional[str] = None) -> List[Object]:
        """The events about an object, in the order in which they were last written; also about former objects of its name."""
        kind, place, name = self._reference(object, namespace)
        fields = f"involvedObject.kind={kind.kind},involvedObject.name={name}"
        if kind.namespaced:
            fields += f",involvedObject.namespace={place}"

        def is_about(event: Object) -> bool:
            # Some writers leave the version out, where a kind is of the core group.
            group, slash, _ = str(event["involvedObject"].get("apiVersion") or "").partition("/")
            return (group if slash else "") == kind.group

        # Those about objects without a namespace are in the namespace default, or where their writer is.
        found = self.list("events", fields=fields, namespace=place, all_namespaces=not kind.namespaced)
        return sorted(filter(is_about, found), key=lambda event: int(event["metadata"]["resourceVersion"]))

    def wait(
        self,
        object: Any,
        *,
        condition: Optional[str] = None,
        matches: Optional[Object] = None,
        until: Optional[Callable[[Object], Any]] = None,
        deleted: bool = False,
        namespace: Optional[str] = None,
        timeout: float = 30.0,
    ) -> Object:
        """Waits, by a watch, until an object is as it should be, and returns it (empty for a deletion).

        One of: `condition`, the type of a condition that is True (`Type=Status` for another status); `matches`, a part of the object:
        dicts match those that have at least their fields; `until`, a function of the object; `deleted`. Without any, it must exist. The
        object is given as for `get` and need not exist yet. Raises WaitTimeout after `timeout` seconds, with the last state and what
        led there.
        """
        expected = expectation(condition, matches, until, deleted)
        return self._wait(self._reference(object, namespace), expected, deleted, time.monotonic() + timeout, timeout)

    def wait_all(
        self,
        objects: Iterable[Any],
        *,
        condition: Optional[str] = None,
        matches: Optional[Object] = None,
        until: Optional[Callable[[Object], Any]] = None,
        deleted: bool = False,
        namespace: Optional[str] = None,
        timeout: float = 30.0,
    ) -> List[Object]:
        """Waits as `wait` does until each of the objects has been as it should be, all within `timeout` seconds; returns them in order.

        For objects by label: `wait_all(cluster.list("pods", labels="app=web"), condition="Ready")`.
        """
        expected = expectation(condition, matches, until, deleted)
        deadline = time.monotonic() + timeout
        references = [self._reference(object, namespace) for object in objects]
        return [self._wait(reference, expected, deleted, deadline, timeout) for reference in references]

    def _wait(
        self,
        reference: Tuple[Kind, str, str],
        expected: Tuple[Callable[[Object], Any], str],
        deleted: bool,
        deadline: float,
        timeout: float,
    ) -> Object:
        kind, place, name = reference
        fits, wanted = expected
        selector = f"metadata.name={name}"
        while True:
            found = self.request("GET", query(kind.path(place), fieldSelector=selector))
            last = kind.named(found["items"][0]) if found["items"] else None
            if (fits(last) if last is not None else deleted):
                return last or {}
            revision = found["metadata"]["resourceVersion"]
            watched = query(kind.path(place), fieldSelector=selector, watch="true", resourceVersion=revision)
            for event in self._running()[0].watch(watched, deadline, self._check_operators):
                if event["type"] == "ERROR":
                    # The history that it continued from is gone: begin anew.
                    break
                last = event["object"] if event["type"] in ("ADDED", "MODIFIED") else None
                if (fits(last) if last is not None else deleted):
                    return last or {}
            # Looked at once in any case: the last of several may have no time left.
            if time.monotonic() >= deadline:
                break
        raise WaitTimeout(self._timeout_text(kind, place, name, wanted, timeout, last), last)

    def explain(self, object: Any, *, namespace: Optional[str] = None) -> Trace:
        """Who wrote to the object, and what followed; `print()` shows a tree. Of custom kinds, too."""
        kind, place, name = self._reference(object, namespace)
        return self._trace(kind, place if kind.namespaced else None, name)

    def revision(self) -> int:
        """The revision of the newest write."""
        return int(self.request("GET", "/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"])

    def last_writes(self, since: int = 0, *, trees: int = LAST_TREES, lines: int = LAST_LINES) -> str:
        """A text for people: what led to the objects that changed last, after revision `since`, and the newest warnings.

        Objects that are gone by now are shown only below what deleted or owned them.
        """
        shown: List[str] = []
        told: set[int] = set()
        for kind, item in self._changed(since):
            metadata = item["metadata"]
            trace = self._trace(kind, metadata.get("namespace"), metadata["name"]).after(since)
            if not trace.writes or told.issuperset(trace.revisions()):
                continue
            told.update(trace.revisions())
            shown.append(str(trace))
            if len(shown) == trees:
                break
        text = "\n".join(shown).splitlines()
        if len(text) > lines:
            text = text[:lines] + [f"… and {len(text) - lines} lines more"]
        return "\n".join((text or ["nothing was written"]) + self._warnings(since))

    def _changed(self, since: int) -> List[Tuple[Kind, Object]]:
        """Objects that were written after a revision: those without an owner first, as their trees have the others; newest first."""
        api, _ = self._running()
        found: Dict[str, Tuple[Kind, Object]] = {}
        for kind in api.kinds():
            if "list" not in kind.verbs or kind.plural in UNEXPLAINED:
                continue
            try:
                items = api.request("GET", kind.path(None))["items"]
            except ApiError:
                # An aggregated API may be away; the others still explain.
                continue
            for item in items:
                if int(item["metadata"].get("resourceVersion") or 0) > since:
                    found.setdefault(item["metadata"].get("uid") or f"{kind}{item['metadata']['name']}", (kind, item))

        def order(entry: Tuple[Kind, Object]) -> Tuple[bool, int]:
            metadata = entry[1]["metadata"]
            return bool(metadata.get("ownerReferences")), -int(metadata["resourceVersion"])

        return sorted(found.values(), key=order)

    def _warnings(self, since: int) -> List[str]:
        events = self.request("GET", "/api/v1/events?fieldSelector=type%3DWarning")["items"]
        new = [event for event in events if int(event["metadata"]["resourceVersion"]) > since]
        new.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [
            f"Warning {event.get('reason')}: {event['involvedObject'].get('kind')}/{event['involvedObject'].get('name')}: {event.get('message')}"
            for event in new[-LAST_WARNINGS:]
        ]

    def _trace(self, kind: Kind, namespace: Optional[str], name: str) -> Trace:
        path = query("/kstore/v1/trace", resource=kind.qualified, namespace=namespace, name=name, changes=EXPLAINED_CHANGES)
        try:
            return Trace(self.request("GET", path)["writes"])
        except ApiError as error:
            if error.code == 404:
                return Trace([])
            raise

    def _timeout_text(
        self, kind: Kind, namespace: str, name: str, wanted: str, timeout: float, last: Optional[Object]
    ) -> str:
        what = f"{kind.singular or kind.plural}/{name}" + (f" in {namespace}" if kind.namespaced else "")
        if last is None:
            state = "it does not exist"
        else:
            metadata = {name: value for name, value in last["metadata"].items() if name != "managedFields"}
            part = last.get("status", {**last, "metadata": metadata})
            state = f"its {'status' if 'status' in last else 'state'} is\n{json.dumps(part, indent=2)[:4000]}"
        trace = self._trace(kind, namespace if kind.namespaced else None, name)
        text = f"{what} was not {wanted} after {timeout:g} s: {state}\nWhat led there:\n{trace}"
        for operator in self.operators:
            text += f"\nLast lines of the operator `{' '.join(operator.command)}`:\n{operator.log_end()}"
        return text

    def _reference(self, object: Any, namespace: Optional[str]) -> Tuple[Kind, str, str]:
        api = self._running()[0]
        if isinstance(object, str):
            word, _, named = object.partition("/")
            if not (word and named):
                raise UsageError(f"say which object as KIND/NAME, for example deployment/web, not {object!r}")
            return api.kind_named(word), namespace or self.namespace, named
        if isinstance(object, dict):
            metadata = object.get("metadata", {})
            api_version, kind = object.get("apiVersion"), object.get("kind")
            name, place = metadata.get("name"), metadata.get("namespace")
        else:
            # A model of `kubernetes`, which may leave out what it is.
            metadata = getattr(object, "metadata", None)
            api_version, kind = getattr(object, "api_version", None), getattr(object, "kind", None)
            name, place = getattr(metadata, "name", None), getattr(metadata, "namespace", None)
        if not (api_version and kind and name):
            raise UsageError(f"the object does not say what it is: apiVersion {api_version}, kind {kind}, name {name}; give KIND/NAME")
        return api.kind_of(api_version, kind), namespace or place or self.namespace, name

    def _directory(self) -> Path:
        """Where its files are."""
        return self._parent._directory() if self._parent is not None else self._running()[1].directory

    def _running(self) -> Tuple[Api, ServerProcess]:
        if self._process is None or self._api is None:
            raise UsageError("the cluster does not run: use it as a context manager, or call start()")
        if not self._process.is_running():
            raise KstoreError("the server has ended by itself or was ended by another process")
        return self._api, self._process


class _View(Cluster):
    """A cluster with another default namespace; the process is that of the whole cluster."""

    def start(self) -> Cluster:
        raise UsageError("a cluster in a namespace is a part of one that runs; start that")

    def stop(self) -> None:
        try:
            self._stop_operators()
        finally:
            if self._parent is not None and self in self._parent._views:
                self._parent._views.remove(self)
            self._process, self._api = None, None
