"""opensearch-project/opensearch-k8s-operator#1471: a rolling restart deletes the next Pod when all Pods in the cache are ready.

A cache that lags behind has the deleted Pod, and it is ready. Fixed: asks the server for the Pods.
"""

from kube import CONTAINERS, CORE, FIXED, THINGS, start

PODS = CORE.format("default", "pods")


def is_ready(pod):
    ready = [c for c in pod["status"].get("conditions", []) if c["type"] == "Ready" and c["status"] == "True"]
    return bool(ready) and "deletionTimestamp" not in pod["metadata"]


def operator(api, things, pods):
    restarted = {}

    def reconcile(name):
        name = name.split("-")[0]
        thing = things.objects.get(name)
        if thing is None:
            return
        wanted, names = thing["spec"]["config"], [f"{name}-{n}" for n in range(3)]
        cached = {pod["metadata"]["name"]: pod for pod in api.list(PODS)} if FIXED else dict(pods.objects)
        missing = [name for name in names if name not in cached]
        for name in missing:
            api.ensure(PODS, {"metadata": {"name": name, "labels": {"config": wanted}}, "spec": CONTAINERS})
        if missing or not all(is_ready(cached[name]) for name in names):
            return
        done = restarted.setdefault(wanted, set())
        old = [name for name in names if cached[name]["metadata"]["labels"]["config"] != wanted and name not in done]
        if old:
            done.add(old[0])
            api.delete(f"{PODS}/{old[0]}")

    return reconcile


start(operator, THINGS, PODS)
