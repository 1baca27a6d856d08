"""A Kubernetes-style control plane for tests, in memory and in a process of its own.

    with kstore.Cluster() as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        core = kubernetes.client.CoreV1Api(cluster.client())

`kstore.Lab` is a cluster whose clock tests move, with forks and a log of requests.

The pytest plugin has the fixtures `kstore`, `cluster`, `lab` and `lab_cluster`. No other package is needed; YAML needs PyYAML, and `Cluster.client()` needs
`kubernetes`.
"""

from ._binary import find_server
from ._certificate import ServingCertificate
from ._clock import LabClock, LabEventLoop
from ._cluster import Cluster
from ._errors import ApiError, KstoreError, LabBusy, OperatorDied, StartError, UsageError, WaitTimeout
from ._lab import Image, Lab
from ._operator import Operator
from ._trace import Trace

__all__ = [
    "ApiError",
    "Cluster",
    "Image",
    "KstoreError",
    "Lab",
    "LabBusy",
    "LabClock",
    "LabEventLoop",
    "Operator",
    "OperatorDied",
    "ServingCertificate",
    "StartError",
    "Trace",
    "UsageError",
    "WaitTimeout",
    "find_server",
]
