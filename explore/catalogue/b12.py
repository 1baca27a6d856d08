"""rabbitmq/cluster-operator#758: refuses to scale below what it last saw. 1, 3, 2 ends at 3 if 3 was seen, and at 2 if it was not.

On kopf, which notes at each object what its handlers last saw. It repeats after a second, and not after kopf's minute, which passes by its
own clock: a search takes it to have given up before. Fixed: decides by the wish alone.
"""

import kopf

from kube import CORE, FIXED, Api

MAPS = CORE.format("default", "configmaps")
THINGS = ("example.com", "v1", "things")


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False


@kopf.on.create(*THINGS, field="spec.replicas", backoff=1)
@kopf.on.update(*THINGS, field="spec.replicas", backoff=1)
def scale(name, old, new, **_):
    if old is not None and new < old and not FIXED:
        print(f"{name} is not scaled from {old} down to {new}", flush=True)
        return
    api, wanted = Api(), {"metadata": {"name": f"{name}-set"}, "data": {"replicas": str(new)}}
    found = api.get(f"{MAPS}/{name}-set")
    if found is None:
        api.create(MAPS, wanted)
    elif found["data"] != wanted["data"]:
        api.update(f"{MAPS}/{name}-set", {**found, "data": wanted["data"]})


kopf.run(standalone=True, namespaces=["default"])
