"""kubernetes/kubernetes#78796: a create that was answered 504 counts as expected; nothing fulfils the expectation, and nothing is tried again.

Fixed: after an uncertain answer it asks the server.
"""

import http.client

from kube import CORE, FIXED, THINGS, Refused, start

MAPS = CORE.format("default", "configmaps")


def operator(api, things):
    expected = set()

    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None or name in expected:
            return
        if api.get(f"{MAPS}/{name}-child") is None:
            expected.add(name)
            try:
                api.create(MAPS, {"metadata": {"name": f"{name}-child"}})
            except (OSError, http.client.HTTPException, Refused) as error:
                uncertain = not isinstance(error, Refused) or error.code == 504
                if not uncertain or FIXED:
                    expected.discard(name)
                    raise
                print(f"expecting {name}-child: {error}", flush=True)

    return reconcile


start(operator, THINGS)
