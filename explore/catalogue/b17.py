"""envoyproxy/ai-gateway#2565: the finalizer is removed by an update whose conflict is swallowed; later events are no change of the wish.

Fixed: the conflict is an error, so the reconcile is repeated with the newest object.
"""

from kube import FIXED, THINGS, Refused, start


def operator(api, things):
    generations = {}

    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None:
            return
        if FIXED:
            thing = api.get(f"{THINGS}/{name}") or thing
        elif generations.get(name) == thing["metadata"]["generation"]:
            return
        generations[name] = thing["metadata"]["generation"]
        meta = thing["metadata"]
        if "deletionTimestamp" in meta:
            finalizers = []
        elif not meta.get("finalizers"):
            finalizers = ["example.com/cleanup"]
        else:
            return
        try:
            api.update(f"{THINGS}/{name}", {**thing, "metadata": {**meta, "finalizers": finalizers}})
        except Refused as refused:
            if refused.code != 409 or FIXED:
                raise
            print(f"conflict on {name}", flush=True)

    return reconcile


start(operator, THINGS)
