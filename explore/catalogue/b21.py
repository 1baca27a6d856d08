"""apache/superset-kubernetes-operator#151: the owner of a Deployment writes its whole spec, with one replica, and its autoscaler another
number, in turns. The load is an annotation.

Fixed: the owner writes its own fields alone.
"""

import os
import time

from kube import CONTAINERS, FIXED, THINGS, start

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LOAD = "example.com/load"


def owner(api, things, deployments):
    def reconcile(name):
        thing, found = things.objects.get(name), deployments.objects.get(name)
        if thing is None:
            return
        labels = {"thing": name, "config": thing["spec"]["config"]}
        template = {"metadata": {"labels": labels}, "spec": CONTAINERS}
        spec = {"replicas": 1, "selector": {"matchLabels": {"thing": name}}, "template": template}
        if found is None:
            api.ensure(DEPLOYMENTS, {"metadata": {"name": name, "annotations": {LOAD: "3"}}, "spec": spec})
        elif found["spec"]["template"]["metadata"]["labels"] != labels or (found["spec"]["replicas"] != 1 and not FIXED):
            if FIXED:
                del spec["replicas"]
            api.merge(f"{DEPLOYMENTS}/{name}", {"spec": spec})
            time.sleep(0.05)

    return reconcile


def autoscaler(api, deployments):
    def reconcile(name):
        found = deployments.objects.get(name)
        if found is not None and found["spec"]["replicas"] != int(found["metadata"]["annotations"][LOAD]):
            replicas = int(found["metadata"]["annotations"][LOAD])
            api.merge(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})

    return reconcile


if os.environ["CONTROLLER"] == "owner":
    start(owner, THINGS, DEPLOYMENTS)
else:
    start(autoscaler, DEPLOYMENTS)
