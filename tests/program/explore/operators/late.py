"""An operator that does its work a second late, by its own clock: a pod that needs time of the cluster to start."""

import time

from kube import CONTAINERS, CORE, THINGS, start

POD = {"metadata": {"name": "late", "annotations": {"kubelet-sim.kstore.io/image-pull": "10s"}}, "spec": CONTAINERS}


def operator(api, things):
    def reconcile(name):
        time.sleep(1)
        api.ensure(CORE.format("default", "pods"), POD)

    return reconcile


start(operator, THINGS)
