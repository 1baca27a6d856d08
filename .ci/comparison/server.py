"""A server as a client sees it: the kinds that it serves, requests over connections that are kept, and the answers to cases.

The connection's settings come from kubectl, which reads kubeconfigs with everything that they may contain.
"""

import base64
import concurrent.futures
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse

from . import cases

# Seconds until a request counts as never answered.
PATIENCE = 60
# Kinds whose status the API server writes after their creation, and the seconds that it may take.
WRITTEN_BY_SERVER = {"APIService", "CustomResourceDefinition", "FlowSchema"}
SETTLE_SECONDS = 10
# Requests at a time.
WORKERS = 4

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


class Answer:
    def __init__(self, code, body, warnings, seconds):
        self.code, self.body, self.warnings, self.seconds = code, body, warnings, seconds


class Server:
    def __init__(self, kubeconfig):
        config = _config(kubeconfig)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url = urllib.parse.urlsplit(cluster["server"])
        self.tls = ssl.create_default_context(cadata=_plain(cluster, "certificate-authority").decode() or None)
        if cluster.get("insecure-skip-tls-verify"):
            self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        if "client-certificate-data" in user or "client-certificate" in user:
            _load_certificate(self.tls, user)
        self.headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self.local = threading.local()
        self.version = self.request("GET", "/version").body["gitVersion"]
        self.resources = self._discover()
        # Resource versions of the stored objects.
        self.versions = {}

    def _discover(self):
        """For each (apiVersion, kind) its (plural, whether it is in a namespace)."""
        groups = [("/api/v1", "v1")]
        for group in self.request("GET", "/apis").body["groups"]:
            groups += [(f"/apis/{version['groupVersion']}", version["groupVersion"]) for version in group["versions"]]
        found = {}
        for path, api_version in groups:
            listed = self.request("GET", path).body
            # The API server of a group may be away: its answer is a text.
            for resource in listed.get("resources", []) if isinstance(listed, dict) else []:
                if "/" not in resource["name"]:
                    found[api_version, resource["kind"]] = (resource["name"], resource["namespaced"])
        return found

    def rediscover(self):
        self.resources = self._discover()

    def collection(self, kind, namespace):
        plural, namespaced = self.resources[kind]
        root = "/api/v1" if kind[0] == "v1" else f"/apis/{kind[0]}"
        return f"{root}/namespaces/{namespace}/{plural}" if namespaced else f"{root}/{plural}"

    def request(self, method, path, body=None, content=JSON, query=None, accept=JSON):
        """The answer; a connection that was closed while idle is opened again once."""
        if query:
            path = f"{path}?{urllib.parse.urlencode(query)}"
        headers = {"Accept": accept, "User-Agent": "kstore-compare", **self.headers}
        if body is not None:
            headers["Content-Type"] = content
            body = body.encode() if isinstance(body, str) else body
        since = time.monotonic()
        for last in (False, True):
            connection = self._connection()
            try:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                content = response.read()
                return Answer(response.status, _decoded(content), _warnings(response), time.monotonic() - since)
            except TimeoutError:
                self.local.connection = None
                return Answer(0, f"no answer within {PATIENCE} s", [], time.monotonic() - since)
            except (http.client.HTTPException, OSError) as error:
                self.local.connection = None
                if last:
                    return Answer(0, f"the connection is lost: {error!r}", [], time.monotonic() - since)
        raise AssertionError("the loop returns")

    def _connection(self):
        connection = getattr(self.local, "connection", None)
        if connection is None:
            port = self.url.port or (443 if self.url.scheme == "https" else 80)
            if self.url.scheme == "https":
                connection = http.client.HTTPSConnection(self.url.hostname, port, context=self.tls, timeout=PATIENCE)
            else:
                connection = http.client.HTTPConnection(self.url.hostname, port, timeout=PATIENCE)
            self.local.connection = connection
        return connection

    def create(self, base, body, content=JSON, validation="Strict", dry_run=True):
        query = {"fieldManager": cases.MANAGER, "fieldValidation": validation, **({"dryRun": "All"} if dry_run else {})}
        return self.request("POST", self.collection(base.kind, base.namespace or cases.NAMESPACE), body, content, query)

    def send(self, case):
        """The answer to a case."""
        base = case.base
        if case.verb == "create":
            return self.create(base, case.text(), validation=case.validation)
        path = f"{self.collection(base.kind, base.namespace or cases.STORED_NAMESPACE)}/{base.stored['metadata']['name']}"
        query = {"fieldManager": cases.MANAGER, "fieldValidation": case.validation, "dryRun": "All"}
        if case.verb == "update":
            return self.request("PUT", path, self._with_version(case), JSON, query)
        if case.verb == "merge":
            return self.request("PATCH", path, case.text(), MERGE, query)
        return self.request("PATCH", path, case.text(), APPLY, {**query, "fieldManager": "compare-apply", "force": "true"})

    def _with_version(self, case):
        """The text of an update with the stored object's resource version, without which some kinds refuse it."""
        version = self.versions.get(id(case.base))
        text = case.text()
        if version and isinstance(case.body.get("metadata"), dict) and case.body["metadata"]:
            return text.replace('"metadata": {', f'"metadata": {{"resourceVersion": "{version}", ', 1)
        return text

    def prepare(self, bases):
        """Creates the namespaces and the stored objects. Returns the bases of kinds that the server serves, and complaints."""
        complaints = []
        for namespace in cases.NAMESPACES:
            self._post("/api/v1/namespaces", {"metadata": {"name": namespace}}, complaints)
            # Pods need it, and without controllers nothing else makes it.
            account = {"metadata": {"name": "default"}}
            self._post(f"/api/v1/namespaces/{namespace}/serviceaccounts", account, complaints)
        served = []
        for base in sorted(bases, key=lambda base: base.kind[1] != "CustomResourceDefinition"):
            if base.kind not in self.resources and base.kind[0].partition("/")[0].endswith(".example.org"):
                self._await(base.kind)
            if base.kind not in self.resources:
                complaints.append(f"{' '.join(base.kind)} is not served")
                continue
            served.append(base)
            if base.stored is not None:
                made = self._post(self.collection(base.kind, base.namespace or cases.STORED_NAMESPACE), base.stored, complaints)
                self.versions[id(base)] = made.get("metadata", {}).get("resourceVersion")
        self._settle(served)
        order = {id(base): index for index, base in enumerate(bases)}
        return sorted(served, key=lambda base: order[id(base)]), complaints

    def _settle(self, bases):
        """Reads the resource versions of stored objects whose status the API server itself writes, until they stay."""
        own = [base for base in bases if base.stored is not None and base.kind[1] in WRITTEN_BY_SERVER]
        for _ in range(SETTLE_SECONDS):
            before = [self.versions.get(id(base)) for base in own]
            time.sleep(1)
            for base in own:
                path = f"{self.collection(base.kind, cases.STORED_NAMESPACE)}/{base.stored['metadata']['name']}"
                body = self.request("GET", path).body
                self.versions[id(base)] = body.get("metadata", {}).get("resourceVersion") if isinstance(body, dict) else None
            if before == [self.versions.get(id(base)) for base in own]:
                break

    def _await(self, kind):
        """Waits for a custom kind, whose definition was just created."""
        end = time.monotonic() + PATIENCE
        while kind not in self.resources and time.monotonic() < end:
            time.sleep(0.2)
            self.rediscover()

    def _post(self, path, value, complaints):
        answer = self.request("POST", path, json.dumps(value), JSON, {"fieldManager": cases.MANAGER})
        if answer.code not in (201, 409):
            said = answer.body.get("message", "") if isinstance(answer.body, dict) else answer.body
            complaints.append(f"{value.get('kind', path)} {value['metadata'].get('name')} is not created: {answer.code} {said}")
        return answer.body if answer.code == 201 else {}

    def finish(self, bases):
        """Deletes what `prepare` created, as far as that goes without controllers."""
        for base in reversed(bases):
            if base.stored is not None and not self.resources[base.kind][1]:
                self.request("DELETE", f"{self.collection(base.kind, '')}/{base.stored['metadata']['name']}")
        for namespace in cases.NAMESPACES:
            self.request("DELETE", f"/api/v1/namespaces/{namespace}")


def each(function, items):
    """The function's result for each item, in their order, some at a time."""
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(function, items)


def _config(kubeconfig):
    command = ["kubectl", "config", "view", "--raw", "--minify", "-o", "json"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)} if kubeconfig else None
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def _plain(settings, name):
    """The bytes of a setting that is in the kubeconfig or in a file."""
    if f"{name}-data" in settings:
        return base64.b64decode(settings[f"{name}-data"])
    if name in settings:
        with open(settings[name], "rb") as file:
            return file.read()
    return b""


def _load_certificate(tls, user):
    """The client's certificate and key: the library takes them from a file only."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(_plain(user, "client-certificate") + b"\n" + _plain(user, "client-key"))
        file.flush()
        tls.load_cert_chain(file.name)


def _decoded(content):
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def _warnings(response):
    found = []
    for warning in response.headers.get_all("Warning") or []:
        # 299 - "text"
        found.append(warning.partition('"')[2].rstrip('"').replace('\\"', '"'))
    return found
