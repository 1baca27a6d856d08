"""tektoncd/pipeline#3656: no name of a Pod in the cached status means to make a Pod with a generated name, and to note its name there.

A cache that lags behind has no name although there is a Pod. Fixed: asks the server for Pods with the owner's UID.
"""

from kube import CONTAINERS, CORE, FIXED, THINGS, owned_by, start

PODS, MAPS = CORE.format("default", "pods"), CORE.format("default", "configmaps")


def operator(api, things, maps):
    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None or name not in maps.objects or thing.get("status", {}).get("podName"):
            return
        labels = {"thing": thing["metadata"]["uid"]}
        pods = api.list(PODS, f"thing={labels['thing']}") if FIXED else []
        if not pods:
            metadata = {"generateName": f"{name}-", "labels": labels, "ownerReferences": owned_by(thing)}
            pods = [api.create(PODS, {"metadata": metadata, "spec": CONTAINERS})]
        api.merge(f"{THINGS}/{name}/status", {"status": {"podName": pods[0]["metadata"]["name"]}})

    return reconcile


start(operator, THINGS, MAPS)
