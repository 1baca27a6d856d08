"""knative/serving#1181: each reconcile sets the time of a condition to now, and updates the status if it differs: each update is an event.

Fixed: keeps the time while the condition is the same.
"""

import datetime
import time

from kube import FIXED, THINGS, start


def operator(api, things):
    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None:
            return
        old = thing.get("status", {}).get("conditions", [{}])[0]
        now = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
        if FIXED and old.get("status") == "True":
            now = old["lastTransitionTime"]
        new = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        if new != old:
            api.update(f"{THINGS}/{name}/status", {**thing, "status": {"conditions": [new]}})
            time.sleep(0.05)

    return reconcile


start(operator, THINGS)
