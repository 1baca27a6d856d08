"""A plain client of the Kubernetes API for the catalogue's operators: Python's standard library alone.

An Informer lists with resourceVersion=0, as client-go did before 0.35, watches from there, and lists again after 410 or an error.
"""

import base64
import datetime
import http.client
import json
import os
import queue
import re
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse

THINGS = "/apis/example.com/v1/namespaces/default/things"
CORE = "/api/v1/namespaces/{}/{}"
FIXED = "--fixed" in sys.argv
CONTAINERS = {"containers": [{"name": "main", "image": "example.com/main"}]}


class Refused(Exception):
    def __init__(self, code, status):
        super().__init__(f"{code}: {status.get('message', '')}")
        self.code = code


class Failed(Exception):
    """What an operator cannot do now."""


class Api:
    def __init__(self):
        text = open(os.environ["KUBECONFIG"], encoding="utf-8").read()
        field = lambda name: re.search(rf"{name}: *(\S+)", text)
        self.server = urllib.parse.urlparse(field("server").group(1))
        self.tls = ssl.create_default_context(cadata=base64.b64decode(field("certificate-authority-data").group(1)).decode())
        self.headers = {"User-Agent": "catalogue", "Accept": "application/json"}
        if field("token"):
            self.headers["Authorization"] = "Bearer " + field("token").group(1)
        else:
            with tempfile.NamedTemporaryFile("wb") as pem:
                for name in ("client-certificate-data", "client-key-data"):
                    pem.write(base64.b64decode(field(name).group(1)))
                pem.flush()
                self.tls.load_cert_chain(pem.name)
        self.connection = None

    def connect(self):
        return http.client.HTTPSConnection(self.server.hostname, self.server.port, context=self.tls)

    def call(self, method, path, body=None, kind="application/json"):
        """One request. A broken connection is an error of the caller, as with most clients."""
        headers = dict(self.headers)
        if body is not None:
            headers["Content-Type"] = kind
        self.connection = self.connection or self.connect()
        try:
            self.connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self.connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise
        try:
            answer = json.loads(text or b"{}")
        except ValueError:
            # Some refusals are plain text, such as that of too many requests.
            answer = {"message": text.decode()}
        if response.status >= 400:
            raise Refused(response.status, answer)
        return answer

    def get(self, path):
        """The object, or None."""
        try:
            return self.call("GET", path)
        except Refused as refused:
            if refused.code != 404:
                raise
            return None

    def list(self, path, labels=""):
        """The objects with these labels, as the server has them now."""
        return self.call("GET", f"{path}?labelSelector={urllib.parse.quote(labels)}")["items"]

    def create(self, path, body):
        return self.call("POST", path, body)

    def ensure(self, path, body):
        """Creates the object unless it exists."""
        try:
            self.create(path, body)
        except Refused as refused:
            if refused.code != 409:
                raise

    def update(self, path, body):
        return self.call("PUT", path, body)

    def merge(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path, policy="Background"):
        """Whether the object was there."""
        try:
            self.call("DELETE", f"{path}?propagationPolicy={policy}")
            return True
        except Refused as refused:
            if refused.code != 404:
                raise
            return False


class Informer:
    """A cache of one resource, which tells `changes` the name of each changed object. It stands at `version`."""

    def __init__(self, api, path, changes):
        self.api, self.path, self.changes = Api(), path, changes
        self.objects, self.version = {}, "0"
        self.ready = threading.Event()
        threading.Thread(target=self.run, daemon=True).start()
        self.ready.wait()

    def run(self):
        while True:
            try:
                listed = self.api.call("GET", self.path + "?resourceVersion=0")
                self.replace(listed["items"])
                self.version = listed["metadata"]["resourceVersion"]
                self.ready.set()
                self.watch()
            except (OSError, http.client.HTTPException, Refused, ValueError):
                time.sleep(0.02)

    def replace(self, items):
        new = {item["metadata"]["name"]: item for item in items}
        names = [name for name in {**self.objects, **new} if self.objects.get(name) != new.get(name)]
        self.objects = new
        for name in names:
            self.changes.put(name)

    def watch(self):
        while True:
            connection = self.api.connect()
            connection.request("GET", f"{self.path}?watch=true&resourceVersion={self.version}", headers=self.api.headers)
            response = connection.getresponse()
            if response.status != 200:
                return
            while line := response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                meta = event["object"]["metadata"]
                if event["type"] == "DELETED":
                    self.objects.pop(meta["name"], None)
                elif event["type"] != "BOOKMARK":
                    self.objects[meta["name"]] = event["object"]
                self.version = meta["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.changes.put(meta["name"])


class Clock:
    """The cluster's clock, which passes without real time: the lab's API serves it to administrators."""

    PATH = "/kstore/lab/v1/clock"

    def __init__(self, changes):
        self.changes = changes

    def now(self):
        """Whole seconds since 1970."""
        text = Api().call("GET", self.PATH)["time"]
        return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())

    def after(self, seconds, name):
        """Reconciles a name at a time of the cluster."""

        def wait():
            Api().call("GET", f"{self.PATH}/wait?for={seconds}s")
            self.changes.put(name)

        threading.Thread(target=wait, daemon=True).start()


def run(reconcile, changes):
    """Reconciles each changed name; a failed one again, each time after twice the pause; and one that asks for it, after its pause."""
    pauses = {}
    while True:
        name = changes.get()
        try:
            pause = reconcile(name)
            pauses.pop(name, None)
        except (OSError, http.client.HTTPException, Refused, Failed) as error:
            print(f"reconciling {name}: {error}", flush=True)
            pause = pauses.get(name, 0.02)
            pauses[name] = min(2 * pause, 60)
        if pause:
            timer = threading.Timer(pause, changes.put, [name])
            timer.daemon = True
            timer.start()


def start(reconcile_of, *paths):
    """Starts informers of these paths and reconciles for ever. `reconcile_of` gets the API and the informers."""
    api, changes = Api(), queue.Queue()
    informers = [Informer(api, path, changes) for path in paths]
    run(reconcile_of(api, *informers), changes)


def start_with_clock(reconcile_of, *paths):
    """As `start`. `reconcile_of` gets the cluster's clock after the API."""
    api, changes = Api(), queue.Queue()
    informers = [Informer(api, path, changes) for path in paths]
    run(reconcile_of(api, Clock(changes), *informers), changes)


def claim(name, labels, annotations):
    """A PersistentVolumeClaim."""
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    resources = {"requests": {"storage": "1Gi"}}
    return {"metadata": metadata, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}


def owned_by(thing):
    """Owner references of what a Thing controls."""
    meta = thing["metadata"]
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": meta["name"], "uid": meta["uid"]}
    return [{**owner, "controller": True}]
