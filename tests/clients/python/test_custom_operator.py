"""kopf with a kind of its own: the definition, its status subresource, a timer, a finalizer that holds, and admission webhooks that kopf
serves and registers by URL."""

import os
import pathlib
import subprocess
import sys

import pytest
import trustme
from kubernetes import client
from kubernetes.client.rest import ApiException
from test_operator import eventually, gone

HERE = pathlib.Path(__file__).parent
GROUP, VERSION, PLURAL = "tests.kstore.io", "v1", "gadgets"

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "kind": "Gadget", "shortNames": ["gd"]},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1},
                                    "color": {"type": "string", "enum": ["red", "green"]},
                                },
                                "x-kubernetes-validations": [
                                    {"rule": "self.size >= oldSelf.size", "message": "gadgets do not shrink"}
                                ],
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def custom(api):
    """The API calls for gadgets, while their definition exists; afterwards definition and objects are deleted."""
    extensions = client.ApiextensionsV1Api(api)
    extensions.create_custom_resource_definition(DEFINITION)
    name = DEFINITION["metadata"]["name"]
    yield client.CustomObjectsApi(api)
    extensions.delete_custom_resource_definition(name)


@pytest.fixture
def operator(server, custom, namespace, tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    files = {name: str(tmp_path / name) for name in ("GADGETS_CERT", "GADGETS_KEY", "GADGETS_CA")}
    certificate.cert_chain_pems[0].write_to_path(files["GADGETS_CERT"])
    certificate.private_key_pem.write_to_path(files["GADGETS_KEY"])
    authority.cert_pem.write_to_path(files["GADGETS_CA"])
    path = tmp_path / "operator.log"
    log = open(path, "wb")
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", namespace, str(HERE / "gadgets.py")]
    environment = {**os.environ, **files, "KUBECONFIG": str(server.kubeconfig)}
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    yield path
    process.terminate()
    assert process.wait(timeout=180) == 0, path.read_text()


def gadget(name, **spec):
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


def test_an_operator_of_a_custom_kind_keeps_status_ticks_and_holds_what_it_must_clean_up(custom, api, namespace, operator):
    where = (GROUP, VERSION, namespace, PLURAL)

    def read(name="g"):
        return custom.get_namespaced_custom_object(*where, name)

    def configured():
        hooks = client.AdmissionregistrationV1Api(api)
        found = hooks.list_validating_webhook_configuration().items + hooks.list_mutating_webhook_configuration().items
        urls = [hook.client_config.url for one in found for hook in one.webhooks or []]
        return len(urls) == 2 and all(url.startswith("https://127.0.0.1:") for url in urls)

    eventually(configured, operator)

    # Admission: a default of the mutating handler; a refusal and a warning of the validating one.
    created = custom.create_namespaced_custom_object(*where, gadget("g", size=5))
    assert created["spec"] == {"size": 5, "color": "red"}
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*where, gadget("unlucky", size=13))
    assert refused.value.status == 422 and "13 is no size for a gadget" in refused.value.body
    _, _, headers = custom.create_namespaced_custom_object_with_http_info(*where, gadget("heavy", size=500))
    assert "a gadget of more than 100 is heavy" in headers["Warning"]
    # The schema is validated after the handlers.
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*where, gadget("blue", size=1, color="blue"))
    assert refused.value.status == 422 and "Unsupported value" in refused.value.body

    # Handlers, status and the timer.
    eventually(lambda: read().get("status", {}).get("phase") == "Made", operator)
    assert read()["status"]["size"] == 5 and read()["metadata"]["finalizers"] == ["tests.kstore.io/gadgets"]
    eventually(lambda: read()["status"].get("ticks", 0) >= 2, operator)
    assert read()["metadata"]["generation"] == 1, "status is no change of the specification"
    custom.patch_namespaced_custom_object(*where, "g", {"spec": {"size": 8}})
    eventually(lambda: read()["status"].get("grew") == 3, operator)
    assert (read()["status"]["phase"], read()["metadata"]["generation"]) == ("Grown", 2)
    with pytest.raises(ApiException) as refused:
        custom.patch_namespaced_custom_object(*where, "g", {"spec": {"size": 7}})
    assert "gadgets do not shrink" in refused.value.body

    # The finalizer blocks the deletion until its handler returns.
    custom.delete_namespaced_custom_object(*where, "g")
    eventually(lambda: "the deletion is not allowed yet" in operator.read_text(), operator)
    assert read()["metadata"]["deletionTimestamp"]
    for name in ("g", "heavy"):
        custom.patch_namespaced_custom_object(*where, name, {"metadata": {"annotations": {"may-go": "yes"}}})
    custom.delete_namespaced_custom_object(*where, "heavy")
    for name in ("g", "heavy"):
        eventually(lambda: gone(read, name), operator)
