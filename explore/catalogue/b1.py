"""datastax/cass-operator#412: a Thing that is being deleted takes all claims with its name as their label along. Else its claim is made.

After a restart on a server that lags behind, the deleted Thing is back, and the claims are those of its namesake. Fixed: the label is
the UID, and a claim is made only for a Thing that the server has.
"""

from kube import CORE, FIXED, THINGS, claim, start

CLAIMS = CORE.format("default", "persistentvolumeclaims")
FINALIZER = "example.com/claims"


def operator(api, things, claims):
    def reconcile(name):
        name = name.removeprefix("data-")
        thing = things.objects.get(name)
        if thing is None:
            return
        meta = thing["metadata"]
        labels = {"thing": meta["uid"] if FIXED else name}
        if "deletionTimestamp" in meta:
            for found in api.list(CLAIMS, f"thing={labels['thing']}"):
                api.delete(f"{CLAIMS}/{found['metadata']['name']}")
            api.update(f"{THINGS}/{name}", {**thing, "metadata": {**meta, "finalizers": []}})
        elif FINALIZER not in meta.get("finalizers", []):
            api.update(f"{THINGS}/{name}", {**thing, "metadata": {**meta, "finalizers": [FINALIZER]}})
        elif f"data-{name}" not in claims.objects:
            live = (api.get(f"{THINGS}/{name}") or {"metadata": {}}) if FIXED else thing
            if live["metadata"].get("uid") != meta["uid"]:
                return
            api.create(CLAIMS, claim(f"data-{name}", labels, {}))

    return reconcile


start(operator, THINGS, CLAIMS)
