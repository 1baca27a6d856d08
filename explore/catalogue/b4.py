"""Orange-OpenSource/casskop#321: a PodDisruptionBudget with another `maxUnavailable` than the Thing's is deleted and made anew.

After a restart on a server that lags behind, the old number looks like a change: the budget ends right, and was gone in between. Fixed:
compares the generation from which the budget on the server was made.
"""

from kube import FIXED, THINGS, start

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
GENERATION = "example.com/generation"


def operator(api, things, budgets):
    def reconcile(name):
        thing, found = things.objects.get(name), budgets.objects.get(name)
        if thing is None:
            return
        generation, wanted = thing["metadata"]["generation"], thing["spec"]["maxUnavailable"]
        if found is not None and found["spec"]["maxUnavailable"] != wanted:
            found = (api.get(f"{BUDGETS}/{name}") or found) if FIXED else found
            if not FIXED or int(found["metadata"]["annotations"][GENERATION]) < generation:
                api.delete(f"{BUDGETS}/{name}")
        elif found is None:
            metadata = {"name": name, "annotations": {GENERATION: str(generation)}}
            spec = {"maxUnavailable": wanted, "selector": {"matchLabels": {"thing": name}}}
            api.create(BUDGETS, {"metadata": metadata, "spec": spec})

    return reconcile


start(operator, THINGS, BUDGETS)
