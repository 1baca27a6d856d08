"""kubernetes-sigs/cluster-api#13649: a child is found in the cache by a hash, or made with a generated name and waited for; after a second of
the cluster in vain the reconcile fails, and its repetition makes another one, which stays. Later repetitions wait longer.

Fixed: the name is made of the hash.
"""

import hashlib

from kube import CORE, FIXED, THINGS, start_with_clock

MAPS = CORE.format("default", "configmaps")


def operator(api, clock, things, maps):
    waits, ends = {}, {}

    def reconcile(name):
        name = name.split("-")[0]
        thing = things.objects.get(name)
        if thing is None:
            return
        label = hashlib.sha256(thing["spec"]["config"].encode()).hexdigest()[:8]
        children = list(maps.objects.values())
        if any(child["metadata"].get("labels", {}).get("hash") == label for child in children):
            return
        metadata = {"labels": {"hash": label}}
        if FIXED:
            api.ensure(MAPS, {"metadata": {**metadata, "name": f"{name}-{label}"}})
        elif clock.now() >= ends.get(name, 0):
            api.create(MAPS, {"metadata": {**metadata, "generateName": f"{name}-"}})
            waits[name] = 60 * waits[name] if name in waits else 1
            ends[name] = clock.now() + waits[name]
            clock.after(waits[name], name)

    return reconcile


start_with_clock(operator, THINGS, MAPS)
