"""Serves an API behind an APIService, to which callers come through the front proxy of the cluster alone. Its objects are their names.

With the argument `ask` it is a user instead, who asks for the API and looks at what the only controller has made.
"""

import http.server
import json
import os
import ssl
import sys
import time

from kube import Api, Refused

GROUP = "/apis/ext.example.com/v1"
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class Extension(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.partition("?")[0] == GROUP:
            things = {"name": "things", "kind": "Thing", "namespaced": False, "verbs": ["get"], "singularName": "thing"}
            answer = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ext.example.com/v1", "resources": [things]}
        elif self.path.startswith(GROUP):
            name = self.headers["X-Remote-User"]
            answer = {"kind": "Thing", "apiVersion": "ext.example.com/v1", "metadata": {"name": name}}
        else:
            answer = None
        body = json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(port):
    trusted = Api().get(TRUST)["data"]["requestheader-client-ca-file"]
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.environ["EXTENSION_CERTIFICATE"], os.environ["EXTENSION_KEY"])
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(cadata=trusted)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Extension)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


def ask():
    api = Api()
    while True:
        try:
            thing = api.get(GROUP + "/things/any")
            break
        except Refused as refused:
            # The cluster has not reached it yet.
            assert refused.code in (404, 503), refused
            time.sleep(0.05)
    assert thing["metadata"]["name"] == "explore-user", thing
    sets = [one["metadata"]["name"] for one in api.list("/apis/apps/v1/namespaces/default/replicasets")]
    assert sets == ["alone"], f"the Deployment has a set although its controller does not run: {sets}"


if sys.argv[1] == "ask":
    ask()
else:
    serve(int(sys.argv[1]))
