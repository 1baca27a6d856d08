"""An operator that opens its watch again three seconds after it ended, by its own clock, as informers of client-go may."""

import time

from kube import CORE, THINGS, Informer, start

watch = Informer.watch


def reopen_late(informer):
    try:
        watch(informer)
    finally:
        time.sleep(3)


def operator(api, things):
    def reconcile(name):
        api.ensure(CORE.format("default", "configmaps"), {"metadata": {"name": f"{name}-child"}})

    return reconcile


Informer.watch = reopen_late
start(operator, THINGS)
