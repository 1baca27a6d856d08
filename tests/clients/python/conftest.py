"""Fixtures: a kstore server for the tests, and clients of it.

KSTORE_SERVER names the binary. Each session starts one server in memory on a free port; each test gets a namespace.
"""

import os
import pathlib
import subprocess
import uuid

import pytest
from kubernetes import client, config


class Server:
    """A running server with its kubeconfig."""

    def __init__(self, binary: str, directory: pathlib.Path):
        self.kubeconfig = directory / "kubeconfig"
        self.log = open(directory / "server.log", "wb")
        self.process = subprocess.Popen(
            [binary, "--in-memory", "--listen", "127.0.0.1:0", "--write-kubeconfig", str(self.kubeconfig)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        # The server prints its address when it is ready. Later output stays in the pipe, which it never
        # fills.
        for line in self.process.stdout:
            if line.strip().startswith(b"try"):
                return
        raise RuntimeError(f"the server ended: see {directory / 'server.log'}")

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(timeout=180)
        self.process.stdout.close()
        self.log.close()
        return code


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(os.environ["KSTORE_SERVER"], tmp_path_factory.mktemp("kstore"))
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="session")
def api(server):
    """An ApiClient of the administrator."""
    return config.new_client_from_config(config_file=str(server.kubeconfig))


@pytest.fixture
def core(api):
    return client.CoreV1Api(api)


@pytest.fixture
def apps(api):
    return client.AppsV1Api(api)


@pytest.fixture
def namespace(core):
    name = f"test-{uuid.uuid4().hex[:8]}"
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    yield name
    core.delete_namespace(name)
