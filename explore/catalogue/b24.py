"""infinispan/infinispan-operator#2166: the status of the object that was read at the begin of a reconcile is merged without its
resourceVersion. What another controller wrote into it meanwhile, and writes only once, is lost.

Fixed: with resourceVersion; a conflict is tried again.
"""

import os

from kube import CORE, FIXED, THINGS, start

MAPS = CORE.format("default", "configmaps")


def operator(api, things, maps):
    def reconcile(name):
        name = name.removesuffix("-config")
        thing = things.objects.get(name)
        if thing is None:
            return
        old = thing.get("status", {})
        new = {"address": old.get("address", "none"), "phase": "Ready"}
        if new != old and FIXED:
            api.update(f"{THINGS}/{name}/status", {**thing, "status": new})
        elif new != old:
            api.merge(f"{THINGS}/{name}/status", {"status": new})

    return reconcile


def addresses(api, things):
    """The other controller."""
    done = set()

    def reconcile(name):
        thing = things.objects.get(name)
        status = {} if thing is None else thing.get("status", {})
        if status.get("address") == "none" and thing["metadata"]["uid"] not in done:
            api.merge(f"{THINGS}/{name}/status", {"status": {"address": "a.example.com"}})
            done.add(thing["metadata"]["uid"])

    return reconcile


if os.environ["CONTROLLER"] == "things":
    start(operator, THINGS, MAPS)
else:
    start(addresses, THINGS)
