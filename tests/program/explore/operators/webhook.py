"""Keeps a ConfigMap for each Thing, and serves a webhook that validates ConfigMaps. What the webhook cannot judge is refused: a create that
fails so is not tried again.

Fixed: it is.
"""

import base64
import http.server
import json
import os
import ssl
import threading

from kube import CORE, FIXED, THINGS, Refused, start

MAPS = CORE.format("default", "configmaps")
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
PORT = int(os.environ["WEBHOOK_PORT"])
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


class Webhook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Webhook)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.environ["WEBHOOK_CERTIFICATE"], os.environ["WEBHOOK_KEY"])
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def operator(api, things):
    authority = base64.b64encode(open(os.environ["WEBHOOK_AUTHORITY"], "rb").read()).decode()
    hook = {"name": "maps.example.com", "rules": [RULE], "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    client = {"service": {"namespace": "hooks", "name": "maps"}, "caBundle": authority}
    api.ensure(HOOKS, {"metadata": {"name": "maps"}, "webhooks": [{**hook, "clientConfig": client, "failurePolicy": "Fail"}]})

    def reconcile(name):
        if name not in things.objects:
            return
        try:
            api.ensure(MAPS, {"metadata": {"name": name}, "data": {"of": name}})
        except Refused as refused:
            if FIXED:
                raise
            print(f"not tried again: {refused}", flush=True)

    return reconcile


# The scenario names the file in a variable, too.
assert open(os.environ["SAME"], encoding="utf-8").read() == open(os.environ["KUBECONFIG"], encoding="utf-8").read()
serve()
start(operator, THINGS)
