"""kyverno/kyverno#14984: a replica that has lost its Lease goes on with what it does as the leader: each writes its name into a ConfigMap.

The second replica waits for the Lease of the first; one that has lost it does not want it again. Fixed: stops with the leadership.
"""

import os
import time

from kube import CORE, FIXED, THINGS, start

MAPS = CORE.format("default", "configmaps")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NAME = os.environ["REPLICA"]


def operator(api, things, maps, leases):
    has_led = set()
    if NAME == "one":
        api.ensure(LEASES, {"metadata": {"name": "things"}, "spec": {"holderIdentity": NAME}})

    def leads():
        lease = leases.objects.get("things", {"spec": {"holderIdentity": "unknown"}})
        holder = lease["spec"].get("holderIdentity", "")
        if not holder and not has_led:
            api.update(f"{LEASES}/things", {**lease, "spec": {**lease["spec"], "holderIdentity": NAME}})
        if holder == NAME:
            has_led.add(NAME)
        return holder == NAME if FIXED else bool(has_led)

    def reconcile(_):
        if not leads() or not things.objects:
            return
        found = maps.objects.get("leader")
        if found is None:
            api.ensure(MAPS, {"metadata": {"name": "leader"}, "data": {"name": NAME}})
        elif found["data"]["name"] != NAME:
            api.update(f"{MAPS}/leader", {**found, "data": {"name": NAME}})
            time.sleep(0.05)

    return reconcile


start(operator, THINGS, MAPS, LEASES)
