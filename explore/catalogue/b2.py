"""rabbitmq/cluster-operator#653: another storage than the StatefulSet's means to delete it, without its pods, note the storage at the
claims, and make it again.

After a restart on a server that lags behind, the old storage looks like a change. Fixed: only if it is larger than
that of the StatefulSet on the server.
"""

from kube import CORE, FIXED, THINGS, claim, start
from sets import SETS, stateful_set, storage_of

CLAIMS = CORE.format("default", "persistentvolumeclaims")
STORAGE = "example.com/storage"


def operator(api, things, sets):
    def reconcile(name):
        thing, found = things.objects.get(name), sets.objects.get(name)
        if thing is None:
            return
        storage = thing["spec"]["storage"]
        if found is None:
            api.ensure(CLAIMS, claim(f"data-{name}-0", {"thing": name}, {STORAGE: str(storage)}))
            api.create(SETS, stateful_set(name, storage))
        elif "deletionTimestamp" in found["metadata"]:
            return
        elif FIXED and storage <= storage_of(api.get(f"{SETS}/{name}") or found):
            return
        elif storage != storage_of(found):
            api.delete(f"{SETS}/{name}", "Orphan")
            for item in api.list(CLAIMS, f"thing={name}"):
                note = {"metadata": {"annotations": {STORAGE: str(storage)}}}
                api.merge(f"{CLAIMS}/{item['metadata']['name']}", note)

    return reconcile


start(operator, THINGS, SETS)
