"""crossplane/crossplane-runtime#283: makes an external object with a generated name, then notes the name; makes one if the note is missing.

Fixed: notes the name that it is going to use before it makes the object.
"""

from kube import CORE, FIXED, THINGS, Refused, start

CLOUD = CORE.format("cloud", "configmaps")
NOTE = "example.com/external"


def operator(api, things):
    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None:
            return
        noted = thing["metadata"].get("annotations", {}).get(NOTE)
        if FIXED:
            external = noted or f"external-{thing['metadata']['uid']}"
            if not noted:
                api.merge(f"{THINGS}/{name}", {"metadata": {"annotations": {NOTE: external}}})
            try:
                api.create(CLOUD, {"metadata": {"name": external}, "data": {"of": name}})
            except Refused as refused:
                if refused.code != 409:
                    raise
        elif not noted:
            made = api.create(CLOUD, {"metadata": {"generateName": "external-"}, "data": {"of": name}})
            api.merge(f"{THINGS}/{name}", {"metadata": {"annotations": {NOTE: made["metadata"]["name"]}}})

    return reconcile


start(operator, THINGS)
