"""kubernetes/kubernetes#129795: counts the creations that it has not seen yet; after five minutes of the cluster it believes its cache.

A cache that lags for longer has too few children. Fixed: waits until the cache has reached the revision of what it made.
"""

from kube import CORE, FIXED, THINGS, start_with_clock

MAPS = CORE.format("default", "configmaps")
EXPIRES = 300


def operator(api, clock, things, maps):
    expected, seen, expires, written = {}, set(), {}, {}

    def reconcile(name):
        if name in maps.objects and name not in seen:
            seen.add(name)
            expected[name.split("-")[0]] = expected.get(name.split("-")[0], 0) - 1
        name = name.split("-")[0]
        thing = things.objects.get(name)
        if thing is None:
            return
        if FIXED:
            if int(maps.version) < written.get(name, 0):
                return
        elif expected.get(name, 0) > 0 and clock.now() < expires[name]:
            return
        children = [child for child in maps.objects if child.startswith(f"{name}-")]
        missing = thing["spec"]["replicas"] - len(children)
        if missing <= 0:
            return
        expected[name], expires[name] = missing, clock.now() + EXPIRES
        clock.after(EXPIRES, name)
        for _ in range(missing):
            made = api.create(MAPS, {"metadata": {"generateName": f"{name}-"}})
            written[name] = int(made["metadata"]["resourceVersion"])

    return reconcile


start_with_clock(operator, THINGS, MAPS)
