"""kubernetes-sigs/cluster-api#13649: a child is found in the cache by a hash, or made with a generated name and waited for; after a second
in vain the reconcile fails, and its repetition makes another one, which stays.

Fixed: the name is made of the hash.
"""

import hashlib
import time

from kube import CORE, FIXED, THINGS, Failed, start

MAPS = CORE.format("default", "configmaps")


def operator(api, things, maps):
    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None:
            return
        label = hashlib.sha256(thing["spec"]["config"].encode()).hexdigest()[:8]
        is_child = lambda child: child["metadata"].get("labels", {}).get("hash") == label
        if any(is_child(child) for child in list(maps.objects.values())):
            return
        if FIXED:
            api.ensure(MAPS, {"metadata": {"name": f"{name}-{label}", "labels": {"hash": label}}})
            return
        api.create(MAPS, {"metadata": {"generateName": f"{name}-", "labels": {"hash": label}}})
        end = time.monotonic() + 1
        while not any(is_child(child) for child in list(maps.objects.values())):
            if time.monotonic() > end:
                raise Failed(f"the child of {name} is not in the cache")
            time.sleep(0.05)

    return reconcile


start(operator, THINGS, MAPS)
