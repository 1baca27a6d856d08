"""What a cluster does with objects beyond apply, get, delete and wait for one."""

import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import time

import kstore
import pytest
from kubernetes import client, config

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "p"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "echo one; echo two; sleep 3600"]}],
    },
}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
    },
}


def config_map(name, **labels):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"k": "v"}}


@pytest.fixture(scope="module")
def server():
    with kstore.Cluster(nodes=1) as cluster:
        yield cluster


@pytest.fixture
def view(server, request):
    return server.in_namespace(request.node.name.replace("_", "-")[:60])


def names(objects):
    return [item["metadata"]["name"] for item in objects]


def reasons(events):
    return {event["reason"] for event in events}


def awaited(ask):
    """The first answer that is not empty: events are written after what they tell of."""
    deadline = time.monotonic() + 60
    while not (answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def test_list_selects_by_labels_and_fields_in_one_namespace_or_all(server, view):
    view.apply([config_map("a", tier="x"), config_map("b", tier="y"), config_map("c", tier="x", other="z")])
    assert names(view.list("configmap", labels="tier=x")) == ["a", "c"]
    assert names(view.list("cm", labels={"tier": "x", "other": "z"})) == ["c"]
    assert names(view.list("configmaps", fields="metadata.name=b")) == ["b"]
    assert names(server.list("configmaps", labels="tier=y")) == []
    found = server.list("configmaps", labels="tier=y", all_namespaces=True)
    assert names(found) == ["b"]
    # Each says what it is, and so names itself.
    assert server.get(found[0]) == {**found[0]}


def test_patch_merges_dicts_and_takes_json_patches(view):
    view.apply(config_map("a"))
    assert view.patch("configmap/a", {"data": {"k": None, "l": "w"}})["data"] == {"l": "w"}
    assert view.patch("configmap/a", [{"op": "add", "path": "/data/m", "value": "x"}])["data"] == {"l": "w", "m": "x"}
    view.apply({**WEB, "spec": {**WEB["spec"], "replicas": 0}})
    added = {"spec": {"template": {"spec": {"containers": [{"name": "second", "image": "busybox"}]}}}}
    patched = view.patch("deployment/web", added, type="strategic")
    assert sorted(one["name"] for one in patched["spec"]["template"]["spec"]["containers"]) == ["c", "second"]
    patched = view.patch("deployment/web", {"status": {"observedGeneration": 7}}, subresource="status")
    assert patched["status"]["observedGeneration"] == 7
    with pytest.raises(kstore.UsageError, match="merge, json, strategic"):
        view.patch("configmap/a", {}, type="apply")


def test_scale_wait_all_and_events(view):
    view.apply(WEB)
    view.scale("deployment/web", 3)
    view.wait("deployment/web", matches={"status": {"readyReplicas": 3}})
    pods = view.list("pods", labels="app=web")
    assert len(view.wait_all(pods, condition="Ready")) == 3
    assert awaited(lambda: reasons(view.events("deployment/web"))) == {"ScalingReplicaSet"}
    # A pod of the same name as the Deployment is another object.
    assert view.events("pod/web") == []
    assert awaited(lambda: reasons(view.events(pods[0])) & {"Scheduled"})


def test_wait_all_has_one_limit_and_names_the_object_that_is_missing(view):
    view.apply([config_map("a"), config_map("b")])
    assert names(view.wait_all(["configmap/a", "configmap/b"], timeout=0)) == ["a", "b"]
    with pytest.raises(kstore.WaitTimeout, match="configmap/c in .* was not there after 0.2 s"):
        view.wait_all(["configmap/a", "configmap/c", "configmap/d"], timeout=0.2)


def test_logs_are_those_of_the_container(view):
    view.apply(POD)
    view.wait("pod/p", condition="Ready")
    # Follows them until both lines are there.
    view.kubectl("logs", "--follow", "--limit-bytes=8", "p")
    assert view.logs("p") == "one\ntwo\n"
    assert view.logs("pod/p", tail=1, container="c") == "two\n"
    view.apply(config_map("a"))
    with pytest.raises(kstore.UsageError, match="has no logs"):
        view.logs("configmap/a")


def test_a_failed_kubectl_raises_what_it_said(view):
    view.kubectl("apply", "-f", "-", input=json.dumps(config_map("a")))
    assert view.get("configmap/a")["data"] == {"k": "v"}
    assert view.kubectl("get", "configmap", "a", "-o", "name") == "configmap/a\n"
    with pytest.raises(kstore.KstoreError, match=r'kubectl get configmap b ended with 1: .*"b" not found'):
        view.kubectl("get", "configmap", "b")
    with pytest.raises(kstore.KstoreError, match="has not ended after 0.5 s"):
        view.kubectl("get", "configmaps", "--watch", timeout=0.5)


def test_kubectl_runs_a_command_in_a_container(view):
    view.apply(POD)
    view.wait("pod/p", condition="Ready")
    assert view.kubectl("exec", "p", "--", "echo", "inside") == "inside\n"


def test_a_service_account_has_a_kubeconfig_with_its_own_rights(view):
    path = view.kubeconfig_of("op")
    api = client.CoreV1Api(config.new_client_from_config(config_file=path))
    with pytest.raises(client.ApiException) as refused:
        api.list_namespaced_config_map(view.namespace)
    assert refused.value.status == 403
    assert f"system:serviceaccount:{view.namespace}:op" in refused.value.body
    view.kubeconfig_of("op", cluster_role="view")
    assert api.list_namespaced_config_map(view.namespace) is not None
    script = "from kubernetes import config; config.load_kube_config(); print(config.list_kube_config_contexts()[1])"
    shown = subprocess.run([sys.executable, "-c", script], env={"KUBECONFIG": path}, capture_output=True, text=True, check=True)
    assert f"'namespace': '{view.namespace}'" in shown.stdout


def test_a_serving_certificate_is_trusted_by_the_authority_and_by_webhooks(view):
    files = view.serving_certificate()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server = http.server.HTTPServer(("127.0.0.1", 0), Refusing)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    webhook = {
        "name": "refusing.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": files.ca_bundle},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": view.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    view.apply({**kind, "metadata": {"name": view.namespace}, "webhooks": [webhook]})
    try:

        def refused():
            try:
                view.apply(config_map("refused"))
            except kstore.ApiError as error:
                return "refused by the test" in str(error)
            return False

        # A new configuration is in force a moment later.
        assert awaited(refused)
    finally:
        view.delete(f"validatingwebhookconfiguration/{view.namespace}")
        server.shutdown()
    assert os.stat(files.key).st_mode & 0o777 == 0o600
    assert view.serving_certificate("hooks.default.svc").key != files.key
    with pytest.raises(kstore.UsageError, match="host names and addresses"):
        view.serving_certificate("--help")


class Refusing(http.server.BaseHTTPRequestHandler):
    """A webhook that refuses everything."""

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "refused by the test"}}
        body = json.dumps({**review, "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
