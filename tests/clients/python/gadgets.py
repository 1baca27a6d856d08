"""An operator of a custom kind, written with kopf as its users write them: handlers of creation, change and deletion, a timer, status,
a finalizer, and admission handlers behind kopf's own webhook server, which registers itself.

GADGETS_CERT, GADGETS_KEY and GADGETS_CA name the files of the webhook server's certificate.
"""

import os

import kopf
from kubernetes import config

GADGETS = ("tests.kstore.io", "v1", "gadgets")


@kopf.on.startup()
def configure(settings, **_):
    config.load_kube_config()
    settings.persistence.finalizer = "tests.kstore.io/gadgets"
    settings.admission.managed = "gadgets.tests.kstore.io"
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="127.0.0.1",
        certfile=os.environ["GADGETS_CERT"],
        pkeyfile=os.environ["GADGETS_KEY"],
        cafile=os.environ["GADGETS_CA"],
    )


@kopf.on.validate(*GADGETS)
def size_is_lucky(spec, warnings, **_):
    if spec.get("size") == 13:
        raise kopf.AdmissionError("13 is no size for a gadget", code=422)
    if spec.get("size", 0) > 100:
        warnings.append("a gadget of more than 100 is heavy")


@kopf.on.mutate(*GADGETS)
def color_is_given(spec, patch, **_):
    if "color" not in spec:
        patch.spec["color"] = "red"


@kopf.on.create(*GADGETS)
def made(spec, patch, **_):
    patch.status["phase"] = "Made"
    patch.status["size"] = spec["size"]


@kopf.on.update(*GADGETS, field="spec.size")
def grown(old, new, patch, **_):
    patch.status["phase"] = "Grown"
    patch.status["size"] = new
    patch.status["grew"] = new - old


@kopf.timer(*GADGETS, interval=0.5)
def tick(status, patch, **_):
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.delete(*GADGETS)
def broken(meta, **_):
    # The finalizer blocks the deletion until a user allows it.
    if "may-go" not in meta.get("annotations", {}):
        raise kopf.TemporaryError("the deletion is not allowed yet", delay=0.5)
