"""An operator of a few lines, written with kopf as its users write them: for every ConfigMap with the label `replicate`, that many
Secrets owned by it, kept in step, and a finalizer's worth of cleaning up."""

import kopf
from kubernetes import client, config

WANTED = {"replicate": kopf.PRESENT}


@kopf.on.startup()
def configure(settings, **_):
    config.load_kube_config()
    settings.posting.enabled = True
    settings.persistence.finalizer = "tests.kstore.io/replicator"


@kopf.on.create("", "v1", "configmaps", labels=WANTED)
@kopf.on.update("", "v1", "configmaps", labels=WANTED, field="data")
def replicate(name, namespace, body, labels, **_):
    core = client.CoreV1Api()
    wanted = int(labels["replicate"])
    for index in range(wanted):
        child = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{name}-{index}"},
            "stringData": dict(body.get("data") or {}),
        }
        kopf.adopt(child, owner=body)
        core.patch_namespaced_secret(
            child["metadata"]["name"],
            namespace,
            child,
            field_manager="replicator",
            force=True,
            _content_type="application/apply-patch+yaml",
        )
    kopf.info(body, reason="Replicated", message=f"{wanted} secrets")


@kopf.on.delete("", "v1", "configmaps", labels=WANTED)
def farewell(name, namespace, **_):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"{name}-farewell"))
    client.CoreV1Api().create_namespaced_config_map(namespace, body)


@kopf.on.event("", "v1", "secrets", labels={"noticed": kopf.ABSENT}, annotations={"notice": kopf.PRESENT})
def notice(name, namespace, patch, **_):
    patch.metadata.labels["noticed"] = "yes"
