"""An operator that is not stable without faults: each start makes one ConfigMap more than the last one, which a file beside the test counts."""

import os

from kube import CORE, THINGS, start

MAPS = CORE.format("default", "configmaps")
COUNT = os.environ["COUNT"]


def operator(api, things):
    with open(COUNT, "a", encoding="utf-8") as file:
        file.write("x")
    count = os.path.getsize(COUNT)

    def reconcile(name):
        for number in range(count):
            api.ensure(MAPS, {"metadata": {"name": f"{name}-{number}"}, "data": {"of": name}})

    return reconcile


start(operator, THINGS)
