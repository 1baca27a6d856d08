"""ai-dynamo/grove#802: children are found by the name of their owner. The child of a deleted namesake is taken, and cannot be controlled.

The child stays until its finalizer is removed, which waits for the end of its owner. Fixed: children are found by the UID of their owner.
"""

from kube import CORE, FIXED, THINGS, Failed, owned_by, start

MAPS = CORE.format("default", "configmaps")


def operator(api, things, maps):
    def reconcile(name):
        name = name.removesuffix("-child")
        thing, child = things.objects.get(name), maps.objects.get(f"{name}-child")
        uid = None if thing is None else thing["metadata"]["uid"]
        owner = None if child is None else child["metadata"]["ownerReferences"][0]["uid"]
        # The server knows best whether the owner of that name is gone.
        is_mine = owner == uid if FIXED else api.get(f"{THINGS}/{name}") is not None
        if child is not None and not is_mine:
            if "deletionTimestamp" in child["metadata"]:
                api.merge(f"{MAPS}/{name}-child", {"metadata": {"finalizers": None}})
            child = None
        if thing is None:
            return
        if child is None:
            metadata = {"name": f"{name}-child", "finalizers": ["example.com/child"]}
            api.create(MAPS, {"metadata": {**metadata, "ownerReferences": owned_by(thing)}})
        elif owner != uid:
            raise Failed(f"{name}-child is controlled by another owner")
        elif not thing.get("status"):
            condition = {"type": "Ready", "status": "True"}
            api.update(f"{THINGS}/{name}/status", {**thing, "status": {"conditions": [condition]}})

    return reconcile


start(operator, THINGS, MAPS)
