"""rabbitmq/cluster-operator#782: whether storage has to grow is read from the StatefulSet's template; then the StatefulSet is deleted,
without its pods, the storage noted at the claims, and the StatefulSet made again.

Dies after the deletion: the new StatefulSet has the new storage, and the claims never get it. Fixed: reads the claims.
"""

from kube import CORE, FIXED, THINGS, claim, start
from sets import SETS, stateful_set, storage_of

CLAIMS = CORE.format("default", "persistentvolumeclaims")
STORAGE = "example.com/storage"


def operator(api, things, sets):
    def grow(name, storage):
        for item in api.list(CLAIMS, f"thing={name}"):
            if int(item["metadata"]["annotations"][STORAGE]) < storage:
                note = {"metadata": {"annotations": {STORAGE: str(storage)}}}
                api.merge(f"{CLAIMS}/{item['metadata']['name']}", note)

    def reconcile(name):
        thing, found = things.objects.get(name), sets.objects.get(name)
        if thing is None:
            return
        storage = thing["spec"]["storage"]
        if found is None:
            api.ensure(CLAIMS, claim(f"data-{name}-0", {"thing": name}, {STORAGE: str(storage)}))
            if FIXED:
                grow(name, storage)
            api.create(SETS, stateful_set(name, storage))
        elif "deletionTimestamp" not in found["metadata"] and storage > storage_of(found):
            api.delete(f"{SETS}/{name}", "Orphan")
            grow(name, storage)

    return reconcile


start(operator, THINGS, SETS)
