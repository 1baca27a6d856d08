"""strimzi/strimzi-kafka-operator#8401: a rotation trusts both authorities, issues the certificate by the new one, and drops the old one,
with the generation at the trusted ones.

Dies after the first: started again, both are trusted, so the certificate counts as issued. Fixed: the state is read from the certificate.
"""

from kube import CORE, FIXED, THINGS, start

MAPS = CORE.format("default", "configmaps")
GENERATION = "example.com/generation"


def operator(api, things):
    def trust(found, authorities, generation):
        metadata = {**found["metadata"], "annotations": {GENERATION: generation}}
        return api.update(f"{MAPS}/trusted", {**found, "metadata": metadata, "data": {"authorities": authorities}})

    def reconcile(name):
        thing = things.objects.get(name)
        if thing is None:
            return
        wanted = thing["spec"]["config"]
        labels = {"labels": {"role": "trusted"}, "annotations": {GENERATION: wanted}}
        api.ensure(MAPS, {"metadata": {"name": "trusted", **labels}, "data": {"authorities": wanted}})
        trusted = api.get(f"{MAPS}/trusted")
        generation = trusted["metadata"]["annotations"][GENERATION]
        # What is wanted may have changed since the authority was trusted.
        certificate = {"name": "certificate", "labels": {"role": "certificate"}}
        api.ensure(MAPS, {"metadata": certificate, "data": {"issuer": generation}})
        issued = api.get(f"{MAPS}/certificate")
        if generation == wanted:
            return
        both = f"{generation},{wanted}"
        is_trusted = trusted["data"]["authorities"] == both
        if not is_trusted:
            trusted = trust(trusted, both, generation)
        if not is_trusted or (FIXED and issued["data"]["issuer"] != wanted):
            api.update(f"{MAPS}/certificate", {**issued, "data": {"issuer": wanted}})
        trust(trusted, wanted, wanted)

    return reconcile


start(operator, THINGS)
