"""Serving certificates of a cluster's authority, for webhooks that a test serves."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import NamedTuple, Sequence

from ._errors import KstoreError, UsageError, hide_frames

__tracebackhide__ = hide_frames

# How long the cluster may take to sign: longer than the program waits by itself.
ISSUE_SECONDS = 60.0


class ServingCertificate(NamedTuple):
    """The files of a serving certificate (PEM); they go with the cluster."""

    certificate: str
    key: str
    authority: str

    @property
    def ca_bundle(self) -> str:
        """The authority as `caBundle` of a webhook's `clientConfig` has it: PEM in base64."""
        return base64.b64encode(Path(self.authority).read_bytes()).decode()


def issue(program: str, kubeconfig: str, folder: Path, names: Sequence[str]) -> ServingCertificate:
    """Has the cluster sign a certificate for these names."""
    if not all(isinstance(name, str) and name and "," not in name and not name.startswith("-") for name in names):
        raise UsageError(f"a certificate is for host names and addresses, not {list(names)!r}")
    command = [program, "certs", "issue", ",".join(names), "--folder", str(folder), "--kubeconfig", kubeconfig]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ISSUE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise KstoreError(f"the cluster has not signed a certificate after {ISSUE_SECONDS:g} s") from error
    if done.returncode != 0:
        raise KstoreError(f"no certificate for {', '.join(names)}: {done.stderr.strip()}")
    return ServingCertificate(str(folder / "tls.crt"), str(folder / "tls.key"), str(folder / "ca.crt"))
