"""rabbitmq/cluster-operator#758: refuses to scale below what it last saw. 1, 3, 2 ends at 3 if 3 was seen, and at 2 if it was not.

Fixed: decides by the wish alone.
"""

from kube import CORE, FIXED, THINGS, start

MAPS = CORE.format("default", "configmaps")


def operator(api, things):
    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None:
            return
        wanted = thing["spec"]["replicas"]
        found = api.get(f"{MAPS}/{name}-set")
        if found is None:
            api.create(MAPS, {"metadata": {"name": f"{name}-set"}, "data": {"replicas": str(wanted)}})
        elif wanted != int(found["data"]["replicas"]):
            if wanted > int(found["data"]["replicas"]) or FIXED:
                api.update(f"{MAPS}/{name}-set", {**found, "data": {"replicas": str(wanted)}})

    return reconcile


start(operator, THINGS)
