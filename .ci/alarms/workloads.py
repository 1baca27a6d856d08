"""A level-triggered operator without a known bug: makes of each Thing one object of each kind of workload, and notes in the Thing's status how
many pods are ready. It decides by what the API server has now, not by its caches, and each of its writes is safe to repeat."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../explore/catalogue"))
from kube import CORE, THINGS, Failed, claim, owned_by, start

APPS = "/apis/apps/v1/namespaces/default/"
BATCH = "/apis/batch/v1/namespaces/default/"
DEPLOYMENTS, SETS, DAEMONS = APPS + "deployments", APPS + "statefulsets", APPS + "daemonsets"
JOBS, CRON_JOBS = BATCH + "jobs", BATCH + "cronjobs"
SERVICES = CORE.format("default", "services")


def template(app, policy):
    spec = {"restartPolicy": policy, "containers": [{"name": "main", "image": "example.com/main"}]}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def wanted(thing):
    """The objects of a Thing: path, name, spec, and whether they have replicas."""
    name, count = thing["metadata"]["name"], thing["spec"]["replicas"]
    app = lambda kind: f"{name}-{kind}"
    select = lambda kind: {"selector": {"matchLabels": {"app": app(kind)}}, "template": template(app(kind), "Always")}
    run = {"template": template(app("job"), "Never")}
    data = claim("data", {}, {})
    return [
        (SERVICES, app("set"), {"clusterIP": "None", "selector": {"app": app("set")}, "ports": [{"port": 80}]}, False),
        (DEPLOYMENTS, app("web"), {"replicas": count, **select("web")}, True),
        (SETS, app("set"), {"replicas": count, "serviceName": app("set"), "volumeClaimTemplates": [data], **select("set")}, True),
        (DAEMONS, app("agent"), select("agent"), False),
        (JOBS, app("once"), {"completions": 2, "parallelism": 1, **run}, False),
        (CRON_JOBS, app("hourly"), {"schedule": "30 * * * *", "jobTemplate": {"spec": run}}, False),
    ]


def operator(api, things, *children):
    def reconcile(changed):
        # Children have the name of their Thing before the first dash.
        name = changed.split("-")[0]
        thing = api.get(f"{THINGS}/{name}")
        if thing is None or "deletionTimestamp" in thing["metadata"]:
            return
        owners, ready = owned_by(thing), 0
        for path, child, spec, has_replicas in wanted(thing):
            api.ensure(path, {"metadata": {"name": child, "ownerReferences": owners}, "spec": spec})
            found = api.get(f"{path}/{child}")
            if found is None or found["metadata"].get("ownerReferences", [{}])[0].get("uid") != thing["metadata"]["uid"]:
                # That of a deleted namesake, which the garbage collector removes.
                raise Failed(f"{child} is not there yet")
            if has_replicas and found["spec"]["replicas"] != spec["replicas"]:
                api.merge(f"{path}/{child}", {"spec": {"replicas": spec["replicas"]}})
            ready += found.get("status", {}).get("readyReplicas", 0)
        if thing.get("status", {}).get("ready") != ready:
            api.update(f"{THINGS}/{name}/status", {**thing, "status": {"ready": ready}})

    return reconcile


start(operator, THINGS, DEPLOYMENTS, SETS, DAEMONS, JOBS, CRON_JOBS)
