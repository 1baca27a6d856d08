"""konpyutaika/nifikop#49: a changed ConfigMap is updated, then `status.outOfSync` set, which restarts the worker. Dies between: never restarted.

The worker is a ConfigMap that keeps the configuration with which it was started. Fixed: compares what the worker was started with.
"""

from kube import CORE, FIXED, THINGS, start

MAPS = CORE.format("default", "configmaps")


def operator(api, things):
    def put(name, data):
        found = api.get(f"{MAPS}/{name}")
        if found is None:
            api.create(MAPS, {"metadata": {"name": name}, "data": data})
        elif found["data"] != data:
            api.update(f"{MAPS}/{name}", {**found, "data": data})
        else:
            return False
        return found is not None

    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None:
            return
        wanted = {"config": thing["spec"]["config"]}
        has_changed = put(f"{name}-config", wanted)
        status = {**thing, "status": {"outOfSync": True}}
        worker = api.get(f"{MAPS}/{name}-worker")
        if worker is None:
            put(f"{name}-worker", wanted)
        elif FIXED:
            if worker["data"] != wanted:
                api.delete(f"{MAPS}/{name}-worker")
                put(f"{name}-worker", wanted)
        elif has_changed:
            api.update(f"{THINGS}/{name}/status", status)
        elif thing.get("status", {}).get("outOfSync"):
            api.delete(f"{MAPS}/{name}-worker")
            put(f"{name}-worker", wanted)
            api.update(f"{THINGS}/{name}/status", {**thing, "status": {"outOfSync": False}})

    return reconcile


start(operator, THINGS)
