"""elastic/cloud-on-k8s#5249: no owner references; if a Thing is missing in the cache, the Secrets labelled with its name are deleted.

After a restart on a server that lags behind, a Thing that exists again is missing. Fixed: asks the server before it deletes.
"""

from kube import CORE, FIXED, THINGS, start

SECRETS = CORE.format("default", "secrets")


def operator(api, things, secrets):
    def reconcile(name):
        name = name.removesuffix("-password")
        secret = f"{name}-password"
        if name in things.objects:
            if secret not in secrets.objects:
                api.create(SECRETS, {"metadata": {"name": secret, "labels": {"thing": name}}, "stringData": {"p": "x"}})
        elif secret in secrets.objects:
            if FIXED and api.get(f"{THINGS}/{name}") is not None:
                return
            api.delete(f"{SECRETS}/{secret}")

    return reconcile


start(operator, THINGS, SECRETS)
