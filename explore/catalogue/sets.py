"""StatefulSets of the catalogue's operators, without pods."""

SETS = "/apis/apps/v1/namespaces/default/statefulsets"


def stateful_set(name, storage):
    labels = {"thing": name}
    resources = {"requests": {"storage": f"{storage}Gi"}}
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example.com/main"}]}}
    spec = {"replicas": 0, "serviceName": name, "selector": {"matchLabels": labels}, "template": pod}
    return {"metadata": {"name": name, "labels": labels}, "spec": {**spec, "volumeClaimTemplates": [template]}}


def storage_of(found):
    """The storage in the template of a StatefulSet, in Gi."""
    return int(found["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))
