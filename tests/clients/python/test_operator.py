"""kopf, an operator framework: handlers, its finalizer, its annotations, events that it posts, garbage collection of children."""

import base64
import os
import pathlib
import subprocess
import sys
import time

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

HERE = pathlib.Path(__file__).parent
PATIENCE = 180


@pytest.fixture
def operator(server, namespace, tmp_path):
    log = open(tmp_path / "operator.log", "wb")
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", namespace, str(HERE / "replicator.py")]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    yield tmp_path / "operator.log"
    process.terminate()
    assert process.wait(timeout=PATIENCE) == 0, (tmp_path / "operator.log").read_text()


def eventually(look, log):
    """The first non-empty result of `look`; a missing object counts as empty."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except ApiException as error:
            if error.status != 404:
                raise
        time.sleep(0.1)
    raise AssertionError(f"did not happen within {PATIENCE} s:\n{log.read_text()}")


def gone(read, *names):
    try:
        read(*names)
    except ApiException as error:
        return error.status == 404
    return False


def test_an_operator_creates_updates_and_cleans_up(core, namespace, operator):
    labels = {"replicate": "2"}
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a", labels=labels), data={"k": "1"})
    parent = core.create_namespaced_config_map(namespace, body)

    def content(name):
        return base64.b64decode(core.read_namespaced_secret(name, namespace).data["k"])

    eventually(lambda: content("a-0") == b"1" and content("a-1") == b"1", operator)
    child = core.read_namespaced_secret("a-0", namespace)
    assert child.metadata.owner_references[0].uid == parent.metadata.uid
    held = core.read_namespaced_config_map("a", namespace)
    assert held.metadata.finalizers == ["tests.kstore.io/replicator"]

    eventually(
        lambda: "kopf.zalando.org/last-handled-configuration"
        in (core.read_namespaced_config_map("a", namespace).metadata.annotations or {}),
        operator,
    )
    core.patch_namespaced_config_map("a", namespace, {"data": {"k": "2"}})
    eventually(lambda: content("a-0") == b"2" and content("a-1") == b"2", operator)
    posted = "involvedObject.name=a,reason=Replicated"
    eventually(lambda: core.list_namespaced_event(namespace, field_selector=posted).items, operator)

    core.delete_namespaced_config_map("a", namespace)
    eventually(lambda: core.read_namespaced_config_map("a-farewell", namespace), operator)
    eventually(lambda: gone(core.read_namespaced_config_map, "a", namespace), operator)
    eventually(lambda: gone(core.read_namespaced_secret, "a-0", namespace), operator)


def test_an_event_handler_patches_what_it_sees(core, namespace, operator):
    body = client.V1Secret(metadata=client.V1ObjectMeta(name="s", annotations={"notice": "me"}))
    core.create_namespaced_secret(namespace, body)
    eventually(lambda: (core.read_namespaced_secret("s", namespace).metadata.labels or {}).get("noticed"), operator)
