"""elastic/beats#6503: its own loop of watches takes an ERROR event for no event, and begins again at the same revision.

A revision that is too old stays so. Fixed: lists again.
"""

import json
import queue
import threading
import time

from kube import CORE, FIXED, THINGS, Api, run

MAPS = CORE.format("default", "configmaps")


def watch(objects, changes):
    api, version = Api(), None
    while True:
        if version is None:
            listed = api.call("GET", THINGS)
            version = listed["metadata"]["resourceVersion"]
            for thing in listed["items"]:
                objects[thing["metadata"]["name"]] = thing
                changes.put(thing["metadata"]["name"])
        connection = api.connect()
        connection.request("GET", f"{THINGS}?watch=true&resourceVersion={version}", headers=api.headers)
        response = connection.getresponse()
        while line := response.readline():
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED"):
                version = event["object"]["metadata"]["resourceVersion"]
                objects[event["object"]["metadata"]["name"]] = event["object"]
                changes.put(event["object"]["metadata"]["name"])
            elif event["type"] == "ERROR" and FIXED:
                version = None
        time.sleep(0.02)


def main():
    api, objects, changes = Api(), {}, queue.Queue()
    threading.Thread(target=watch, args=(objects, changes), daemon=True).start()

    def reconcile(name):
        data = {"config": objects[name]["spec"]["config"]}
        found = api.get(f"{MAPS}/{name}-config")
        if found is None:
            api.create(MAPS, {"metadata": {"name": f"{name}-config"}, "data": data})
        elif found["data"] != data:
            api.update(f"{MAPS}/{name}-config", {**found, "data": data})

    run(reconcile, changes)


main()
