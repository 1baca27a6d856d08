"""instaclustr/cassandra-operator#398: a Pod's claim is deleted only if the Pod is seen while it is being deleted.

Without that state the claim stays, and the next Pod of that name gets its data. Fixed: also deletes claims above `replicas`
that have no Pod.
"""

from kube import CONTAINERS, CORE, FIXED, THINGS, claim, start

PODS, CLAIMS = CORE.format("default", "pods"), CORE.format("default", "persistentvolumeclaims")


def operator(api, things, pods):
    def reconcile(name):
        name = name.split("-")[0]
        thing = things.objects.get(name)
        if thing is None:
            return
        replicas = thing["spec"]["replicas"]
        for pod in list(pods.objects):
            if int(pod.split("-")[1]) < replicas:
                continue
            if "deletionTimestamp" in pods.objects[pod]["metadata"]:
                api.delete(f"{CLAIMS}/data-{pod}")
            else:
                api.delete(f"{PODS}/{pod}")
        if FIXED:
            for found in api.list(CLAIMS, f"thing={name}"):
                pod = found["metadata"]["name"].removeprefix("data-")
                if int(pod.split("-")[1]) >= replicas and pod not in pods.objects:
                    api.delete(f"{CLAIMS}/data-{pod}")
        for pod in [f"{name}-{n}" for n in range(replicas)]:
            if pod not in pods.objects:
                api.ensure(CLAIMS, claim(f"data-{pod}", {"thing": name}, {}))
                api.ensure(PODS, {"metadata": {"name": pod, "labels": {"thing": name}}, "spec": CONTAINERS})

    return reconcile


start(operator, THINGS, PODS)
