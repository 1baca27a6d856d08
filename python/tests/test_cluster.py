"""A cluster's options, and what it gives to tests and to clients of the package kubernetes."""

import pathlib
import subprocess
import sys

import kstore
import pytest
from kubernetes import client

CRDS = pathlib.Path(__file__).parent / "crds"
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "first"}}
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"""


@pytest.fixture(scope="module")
def shared():
    with kstore.Cluster(crds=CRDS, manifests=[WIDGET, WEB], nodes=2) as cluster:
        yield cluster


def test_definitions_and_manifests_are_there_at_the_start_with_defaults(shared):
    assert shared.get("wd/first")["kind"] == "Widget"
    shared.apply({**WIDGET, "metadata": {"name": "second"}, "spec": {}})
    assert shared.get("widgets.example.com/second")["spec"] == {"size": 3}


def test_a_deployment_becomes_available_on_the_nodes_asked_for(shared):
    shared.wait("deployment/web", condition="Available")
    core = client.CoreV1Api(shared.client())
    assert len(core.list_node().items) == 2
    pods = core.list_namespaced_pod("default", label_selector="app=web").items
    assert [pod.status.phase for pod in pods] == ["Running", "Running"]


def test_url_authority_and_token_are_enough_for_a_client(shared, tmp_path):
    authority = tmp_path / "ca.crt"
    authority.write_text(shared.ca)
    configuration = client.Configuration(host=shared.url)
    configuration.ssl_ca_cert = str(authority)
    configuration.api_key = {"authorization": f"Bearer {shared.token()}"}
    api = client.CoreV1Api(client.ApiClient(configuration))
    assert "default" in [namespace.metadata.name for namespace in api.list_namespace().items]


def test_a_token_without_a_role_has_no_rights(shared, tmp_path):
    authority = tmp_path / "ca.crt"
    authority.write_text(shared.ca)
    configuration = client.Configuration(host=shared.url)
    configuration.ssl_ca_cert = str(authority)
    configuration.api_key = {"authorization": f"Bearer {shared.token('nobody', cluster_role=None)}"}
    with pytest.raises(client.ApiException) as refused:
        client.CoreV1Api(client.ApiClient(configuration)).list_namespace()
    assert refused.value.status == 403


def test_a_view_of_a_namespace_keeps_its_objects_apart_and_its_kubeconfig_names_it(shared):
    one, other = shared.in_namespace("one"), shared.in_namespace("other")
    one.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert one.get("configmap/a") is not None
    assert other.get("configmap/a") is None
    assert "namespace: one" in pathlib.Path(one.kubeconfig).read_text()


def test_a_program_that_a_test_starts_finds_the_cluster_and_its_namespace(shared):
    view = shared.in_namespace("of-a-program")
    script = "from kubernetes import client, config; config.load_kube_config(); print(config.list_kube_config_contexts()[1])"
    shown = subprocess.run([sys.executable, "-c", script], env=view.env, capture_output=True, text=True, check=True)
    assert "'namespace': 'of-a-program'" in shown.stdout


def test_an_object_in_a_deleted_namespace_goes_with_it(shared):
    view = shared.in_namespace("short-lived")
    view.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    view.delete("namespace/short-lived")
    view.wait("namespace/short-lived", deleted=True)
    assert view.get("configmap/a") is None


def test_a_wait_that_fails_tells_the_state_and_what_led_there(shared):
    shared.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "w"}, "data": {"k": "v"}})
    with pytest.raises(kstore.WaitTimeout) as failed:
        shared.wait("configmap/w", matches={"data": {"k": "other"}}, timeout=0.2)
    assert failed.value.last["data"] == {"k": "v"}
    assert "kstore-python) created configmaps/default/w" in str(failed.value)
    assert failed.value.last["metadata"]["managedFields"]
    assert "managedFields" not in str(failed.value)


def test_what_the_api_refuses_raises_its_status(shared):
    with pytest.raises(kstore.ApiError) as refused:
        shared.apply({**WIDGET, "spec": {"size": 0}})
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert "spec.size" in str(refused.value)


def test_usage_errors_say_what_to_do(shared):
    with pytest.raises(kstore.UsageError, match="apply its CustomResourceDefinition first"):
        shared.get("gizmo/first")
    with pytest.raises(kstore.UsageError, match="KIND/NAME"):
        shared.get("web")
    with pytest.raises(kstore.UsageError, match="call start"):
        kstore.Cluster().get("configmap/a")


def test_a_misspelt_kind_or_version_is_told_the_nearest(shared):
    with pytest.raises(kstore.UsageError, match=r"no kind depoyment; .* did you mean deployment\?"):
        shared.get("depoyment/web")
    with pytest.raises(kstore.UsageError, match=r"did you mean apps/v1 Deployment\?"):
        shared.apply({"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "web"}})


def test_a_broken_file_is_named_with_its_line(shared, tmp_path):
    broken = tmp_path / "bad.yaml"
    broken.write_text("apiVersion: v1\nkind: a: b\n")
    with pytest.raises(kstore.UsageError, match=r"bad\.yaml, line 2: neither JSON nor YAML: mapping values are not allowed"):
        shared.apply(tmp_path)
    broken.write_text("kind: ConfigMap\n")
    with pytest.raises(kstore.UsageError, match=r"bad\.yaml needs apiVersion"):
        shared.apply([broken])
    with pytest.raises(kstore.UsageError, match="the manifest, line 1: "):
        shared.apply("a: b: c")


def test_an_error_without_a_reason_has_no_blank_for_it():
    assert str(kstore.ApiError(418, {"message": "no"}, "GET /x")) == "GET /x: 418: no"
    assert str(kstore.ApiError(404, {"reason": "NotFound", "message": "no"}, "GET /x")) == "GET /x: 404 NotFound: no"


def test_models_of_the_kubernetes_package_name_objects(shared):
    model = client.V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=client.V1ObjectMeta(name="m", namespace="default"))
    client.CoreV1Api(shared.client()).create_namespaced_config_map("default", model)
    assert shared.get(model)["metadata"]["name"] == "m"


def test_without_components_but_the_apiserver_no_controller_acts():
    with kstore.Cluster(components=["apiserver"], nodes=0, manifests=WEB) as cluster:
        assert cluster.request("GET", "/apis/apps/v1/replicasets")["items"] == []
        assert cluster.request("GET", "/api/v1/nodes")["items"] == []
