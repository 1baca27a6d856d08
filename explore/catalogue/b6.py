"""ray-project/kuberay#715: counts its Pods in the cache, makes those that are missing, and deletes a surplus at random, each with its claim.

A cache that lags behind has too few of them. Fixed: counts what it made and has not seen yet, too.
"""

import random

from kube import CONTAINERS, CORE, FIXED, THINGS, claim, start

PODS, CLAIMS = CORE.format("default", "pods"), CORE.format("default", "persistentvolumeclaims")


def operator(api, things, pods):
    unseen = set()

    def reconcile(name):
        name = name.split("-")[0]
        thing, cached = things.objects.get(name), set(pods.objects)
        if thing is None:
            return
        unseen.difference_update(cached)
        count = len(cached | unseen if FIXED else cached)
        for _ in range(count, thing["spec"]["replicas"]):
            metadata = {"generateName": f"{name}-", "labels": {"thing": name}}
            made = api.create(PODS, {"metadata": metadata, "spec": CONTAINERS})["metadata"]["name"]
            unseen.add(made)
            api.create(CLAIMS, claim(made, {"thing": name}, {}))
        for surplus in random.sample(sorted(cached), max(count - thing["spec"]["replicas"], 0)):
            api.delete(f"{PODS}/{surplus}")
            api.delete(f"{CLAIMS}/{surplus}")

    return reconcile


start(operator, THINGS, PODS)
