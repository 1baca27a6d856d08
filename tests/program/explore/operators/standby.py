"""Leads while it has a lock, and listens at its port then. Another replica asks for the version of the cluster, and waits for the lock."""

import fcntl
import socket
import sys

from kube import Api

folder, port = sys.argv[1], int(sys.argv[2])
Api().get("/version")
open(f"{folder}/started-{port}", "w", encoding="utf-8").close()
lock = open(f"{folder}/lock", "w", encoding="utf-8")
fcntl.flock(lock, fcntl.LOCK_EX)
server = socket.create_server(("127.0.0.1", port))
connections = []
while True:
    connections.append(server.accept())
