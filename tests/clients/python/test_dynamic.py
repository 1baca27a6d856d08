"""Python's dynamic client, which reads the kinds from discovery."""

import pytest
from kubernetes import dynamic
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError


@pytest.fixture(scope="session")
def client(api):
    return dynamic.DynamicClient(api)


def test_kinds_are_found_by_kind_and_by_plural(client):
    deployments = client.resources.get(api_version="apps/v1", kind="Deployment")
    assert deployments.namespaced and "scale" in deployments.subresources
    assert client.resources.get(api_version="v1", kind="Pod").name == "pods"


def test_every_listed_kind_can_be_listed(client):
    listed = 0
    for found in client.resources.search():
        kind = found[0] if isinstance(found, list) else found
        if "list" in (getattr(kind, "verbs", None) or []) and not kind.kind.endswith("List"):
            client.get(kind)
            listed += 1
    assert listed > 50


def test_apply_patch_and_delete(client, namespace):
    maps = client.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    applied = maps.server_side_apply(body=body, namespace=namespace, field_manager="dynamic")
    assert applied.data.k == "1"
    stale = maps.get(name="a", namespace=namespace).to_dict()
    maps.patch(
        body={"data": {"k": "2"}}, name="a", namespace=namespace, content_type="application/merge-patch+json"
    )
    with pytest.raises(ConflictError):
        maps.replace(body=stale, namespace=namespace)
    maps.delete(name="a", namespace=namespace)
    with pytest.raises(NotFoundError):
        maps.get(name="a", namespace=namespace)
