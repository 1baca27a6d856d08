"""The REST API over TLS with the standard library alone: requests, discovery of kinds, and watches. Not a client for applications: those
use `kubernetes`."""

from __future__ import annotations

import base64
import difflib
import http.client
import json
import re
import select
import shutil
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple
from urllib.parse import quote, urlencode, urlsplit

from ._errors import ApiError, KstoreError, UsageError, hide_frames

__tracebackhide__ = hide_frames

Object = Dict[str, Any]

# How long one request may take; watches have their own limit.
REQUEST_SECONDS = 60.0
# The name under which writes appear in managed fields and explanations.
MANAGER = "kstore-python"
# How alike a misspelt kind and a real one are, from 0 to 1.
NEAR = 0.75
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True)
class Kind:
    """A kind that the cluster serves, in one of its versions."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: Tuple[str, ...]
    namespaced: bool
    verbs: Tuple[str, ...]

    @property
    def api_version(self) -> str:
        """As manifests have it: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`deployments.apps`, as the trace names kinds."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: Optional[str], name: Optional[str] = None) -> str:
        """Of all objects of the kind (in a namespace), or of one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{quote(namespace)}" if self.namespaced and namespace else ""
        return f"{root}{place}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")

    def named(self, item: Object) -> Object:
        """An item of a list, which does not say what it is, with its version and kind."""
        return {"apiVersion": self.api_version, "kind": self.kind, **item}

    def answers_to(self, word: str) -> bool:
        """Whether a person who writes `word` may mean it; in lower case, without a group."""
        return word in (self.plural, self.singular, self.kind.lower()) or word in self.short_names


class Api:
    """The API of the server that a kubeconfig written by it names."""

    def __init__(self, kubeconfig: Path):
        text = kubeconfig.read_text()
        self.url = _field(text, "server")
        parts = urlsplit(self.url)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self.ca = _data(text, "certificate-authority-data").decode()
        self._tls = ssl.create_default_context(cadata=self.ca)
        # The standard library loads client certificates from files only.
        pair = kubeconfig.parent / "client.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(_data(text, "client-certificate-data") + b"\n" + _data(text, "client-key-data"))
        self._tls.load_cert_chain(str(pair))
        self._kinds: List[Kind] = []
        # The sockets of the watches that go on.
        self._watched: Set[socket.socket] = set()
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        *,
        timeout: float = REQUEST_SECONDS,
        headers: Optional[Dict[str, str]] = None,
    ) -> Any:
        """The decoded answer; raises ApiError for one that is no success."""
        connection = self._connect(timeout)
        try:
            answer = self._send(connection, method, path, body, content_type, accept, headers)
            text = answer.read()
            if "json" in answer.headers.get("Content-Type", ""):
                return json.loads(text)
            return text.decode(errors="replace")
        finally:
            connection.close()

    def download(self, path: str, to: Path, *, timeout: float = REQUEST_SECONDS) -> None:
        """Writes the body of an answer into a file; raises ApiError for a refusal."""
        connection = self._connect(timeout)
        try:
            answer = self._send(connection, "GET", path, None, "application/json", "*/*")
            with open(to, "wb") as file:
                shutil.copyfileobj(answer, file)
        finally:
            connection.close()

    def upload(self, path: str, file: Path, *, timeout: float = REQUEST_SECONDS) -> Any:
        """Sends a file as the body of a PUT: the decoded answer; raises ApiError for a refusal."""
        connection = self._connect(timeout)
        try:
            body = file.read_bytes()
            answer = self._send(connection, "PUT", path, body, "application/octet-stream", "application/json")
            return json.loads(answer.read())
        finally:
            connection.close()

    def stream(self) -> "Stream":
        """A connection for one request at a time whose answers are awaited by a selector."""
        return Stream(self._connect(REQUEST_SECONDS))

    def watch(self, path: str, deadline: float, check: Callable[[], None]) -> Iterator[Object]:
        """The events of a watch, to its end or the deadline (by time.monotonic), at which it just ends.

        `interrupt` ends it, too; `check` is called where a later interruption is no longer missed.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            return
        connection = self._connect(left)
        sock: Optional[socket.socket] = None
        try:
            answer = self._send(connection, "GET", path, None, "application/json", "application/json")
            sock = connection.sock
            if sock is not None:
                with self._lock:
                    self._watched.add(sock)
            check()
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                if connection.sock is not None:
                    connection.sock.settimeout(left)
                line = answer.readline()
                if not line:
                    return
                yield json.loads(line)
        except TimeoutError:
            return
        except (OSError, http.client.HTTPException) as error:
            # Python before 3.10 has a type of its own for a socket's time-out.
            if "timed out" not in str(error) and (sock is None or sock in self._watched):
                raise
        finally:
            if sock is not None:
                with self._lock:
                    self._watched.discard(sock)
            connection.close()

    def interrupt(self) -> None:
        """Ends all watches, from another thread."""
        with self._lock:
            for sock in self._watched:
                try:
                    # Not by the method of TLS sockets, which a thread that reads must not see half done.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
                except OSError:
                    # The server has closed it.
                    pass
            self._watched.clear()

    def kinds(self) -> List[Kind]:
        """Every kind that is served now, those of the core group first."""
        groups = [item for path in ("/api", "/apis") for item in self.request("GET", path, accept=DISCOVERY)["items"]]
        self._kinds = [kind for group in groups for kind in _kinds_of(group)]
        return self._kinds

    def kind_of(self, api_version: str, kind: str) -> Kind:
        """The kind of a manifest. Raises UsageError if the cluster does not serve it."""
        return self._find(
            lambda found: found.kind == kind and found.api_version == api_version,
            f"{api_version} {kind}",
            # Another version of the same kind is nearer than another kind.
            lambda found: [f"{found.api_version} {found.kind}"] if found.kind.lower() == kind.lower() else [],
        )

    def kind_named(self, word: str) -> Kind:
        """The kind that a person means, as kubectl takes it: deployment, deploy, deployments.apps."""
        name, _, group = word.lower().partition(".")
        return self._find(
            lambda found: found.answers_to(name) and group in ("", found.group),
            word,
            lambda found: _near(name, [found.singular or found.kind.lower(), found.plural]),
        )

    def _find(self, fits: Callable[[Kind], bool], shown: str, near: Callable[[Kind], List[str]]) -> Kind:
        # What was seen last first; then what is served now.
        found = next(filter(fits, self._kinds), None) or next(filter(fits, self.kinds()), None)
        if found is None:
            alike = difflib.get_close_matches(shown, [word for kind in self._kinds for word in near(kind)], n=1, cutoff=0)
            meant = f", or did you mean {alike[0]}?" if alike else ""
            raise UsageError(f"the cluster has no kind {shown}; apply its CustomResourceDefinition first{meant}")
        return found

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Any,
        content_type: str,
        accept: str,
        further: Optional[Dict[str, str]] = None,
    ) -> http.client.HTTPResponse:
        headers = {"Accept": accept, "User-Agent": MANAGER, **(further or {})}
        if body is not None:
            headers["Content-Type"] = content_type
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
        except (ConnectionError, http.client.HTTPException) as error:
            raise KstoreError(f"{method} {path}: the server at {self.url} does not answer: {error}") from error
        if answer.status >= 400:
            raise ApiError(answer.status, _status(answer.read()), f"{method} {path}")
        return answer


class Stream:
    """A connection whose answers are read without waiting, when a selector says that there is something to read."""

    def __init__(self, connection: http.client.HTTPSConnection):
        self._connection = connection
        self._read = b""

    def send(self, path: str) -> None:
        """Sends a GET; the answer to the one before must have been read."""
        if self._connection.sock is None:
            self._connection.connect()
        sock = self._socket()
        sock.settimeout(REQUEST_SECONDS)
        host = f"{self._connection.host}:{self._connection.port}"
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {MANAGER}\r\nAccept: application/json\r\n\r\n".encode())
        sock.settimeout(0)

    def poll(self) -> Optional[Tuple[int, str]]:
        """The code and text of the answer, if all of it is here. Raises KstoreError if the server has closed the connection."""
        while not self._is_whole():
            try:
                read = self._socket().recv(65536)
            except (ssl.SSLWantReadError, BlockingIOError):
                return None
            except OSError as error:
                raise KstoreError(f"the server does not answer: {error}") from error
            if not read:
                raise KstoreError("the server has closed the connection")
            self._read += read
        head, _, body = self._read.partition(b"\r\n\r\n")
        self._read = b""
        return int(head.split(b" ", 2)[1]), body.decode(errors="replace")

    def ask(self, path: str) -> Tuple[int, str]:
        """Sends a GET and waits for its answer."""
        self.send(path)
        while True:
            answer = self.poll()
            if answer is not None:
                return answer
            select.select([self], [], [], REQUEST_SECONDS)

    def fileno(self) -> int:
        """The socket's, for selectors."""
        return self._socket().fileno()

    def close(self) -> None:
        """Closes the connection; the next request opens it again."""
        self._read = b""
        self._connection.close()

    def _is_whole(self) -> bool:
        head, end, body = self._read.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head) if end else None
        return length is not None and len(body) >= int(length.group(1))

    def _socket(self) -> socket.socket:
        sock: Optional[socket.socket] = self._connection.sock
        if sock is None:
            raise KstoreError("the connection is closed")
        return sock


def query(path: str, **parameters: Any) -> str:
    """The path with a query of the parameters that are given."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _kinds_of(group: Object) -> Iterator[Kind]:
    for version in group.get("versions", []):
        for resource in version.get("resources", []):
            response = resource.get("responseKind") or {}
            yield Kind(
                group=group.get("metadata", {}).get("name", ""),
                version=version["version"],
                kind=response.get("kind", ""),
                plural=resource["resource"],
                singular=resource.get("singularResource", ""),
                short_names=tuple(resource.get("shortNames") or ()),
                namespaced=resource.get("scope") == "Namespaced",
                verbs=tuple(resource.get("verbs") or ()),
            )


def _near(word: str, names: List[str]) -> List[str]:
    return difflib.get_close_matches(word, names, n=1, cutoff=NEAR)


def _status(body: bytes) -> Object:
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    return status if isinstance(status, dict) else {"message": body.decode(errors="replace")}


def _field(kubeconfig: str, name: str) -> str:
    # The server's own file: one of each, on a line of its own.
    found = re.search(rf"^\s*{name}: *\"?([^\s\"]+)", kubeconfig, re.MULTILINE)
    if found is None:
        raise KstoreError(f"the kubeconfig has no {name}")
    return found.group(1)


def _data(kubeconfig: str, name: str) -> bytes:
    return base64.b64decode(_field(kubeconfig, name))
