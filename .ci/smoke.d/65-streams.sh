# What runs through a connection instead of an answer: logs, commands, terminals and ports of simulated containers.
namespace streams

cat >"$WORK/streams.yaml" <<'YAML'
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
  annotations:
    kubelet-sim.kstore.io/exec: '{"redis-cli ping": "PONG\n"}'
    kubelet-sim.kstore.io/talk.logs: "one\ntwo"
    kubelet-sim.kstore.io/talk.log-every: 200ms
    kubelet-sim.kstore.io/talk.log-line: tick {n}
spec:
  containers:
  - name: web
    image: nginx
    ports: [{containerPort: 80}]
    env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    volumeMounts: [{name: config, mountPath: /etc/config}]
  - name: talk
    image: talk
  volumes:
  - name: config
    configMap: {name: config}
---
apiVersion: v1
kind: Pod
metadata:
  name: crash
  annotations: {kubelet-sim.kstore.io/run-seconds: "1", kubelet-sim.kstore.io/exit-code: "3"}
spec:
  containers: [{name: crash, image: crash}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {key: value}
YAML
step 'kubectl apply -f "$WORK/streams.yaml"' 'pod/web created'
step 'kubectl wait pod/web --for=condition=Ready --timeout=30s' 'met$'

step 'kubectl logs web -c web' '^simulated container web started \(image nginx\)$'
step 'kubectl logs web -c talk --tail=-1' '^one$' '^two$'
step 'sleep 1; kubectl logs web -c talk --tail=1' '^tick ' '!one'
step 'kubectl logs web -c talk --timestamps | head -n 1' '^20[0-9-]+T[0-9:]+\.[0-9]{9}Z one$'
step 'kubectl logs web -c talk --since=1s' '^tick ' '!two'
step 'kubectl logs -l app=web --all-containers --prefix --tail=1' '^\[pod/web/web\] simulated' '^\[pod/web/talk\] tick '
step '(timeout 2 kubectl logs -f web -c talk --tail=0 || true) | head -n 3' '^tick '
refused 'kubectl logs web -c nope' 'container nope is not valid for pod web'
refused 'kubectl logs web -c web --previous' 'previous terminated container "web" in pod "web" not found'
step 'until kubectl logs crash --previous; do sleep 0.2; done' '^simulated container crash ended with exit code 3 after '

step 'kubectl exec web -c web -- echo hi' '^hi$'
step "kubectl exec web -c web -- sh -c 'echo \$NODE; cat /etc/config/key'" '^node-' '^value$'
step 'kubectl exec web -c web -- redis-cli ping' '^PONG$'
step 'echo piped | kubectl exec -i web -c web -- cat' '^piped$'
step 'head -c 2000000 /dev/zero | kubectl exec -i web -c web -- cat | wc -c' '^2000000$'
refused "kubectl exec web -c web -- sh -c 'exit 3'; code=\$?; echo code \$code; exit \$code" 'command terminated with exit code 3' '^code 3$'
refused 'kubectl exec web -c web -- nope' 'exec: "nope": executable file not found in \$PATH'
refused 'kubectl exec web -c nope -- true' 'container nope is not valid for pod web'
refused 'kubectl cp web:/etc/hostname "$WORK/hostname" -c web' 'exec: "tar": executable file not found'
# The way of clients before WebSockets.
step 'KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec web -c web -- echo spdy' '^spdy$'
step 'echo piped | KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec -i web -c web -- cat' '^piped$'
refused "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec web -c web -- sh -c 'exit 4'" 'exit code 4'
step '(timeout 2 kubectl attach web -c talk || true)' '^tick '

for websockets in true false; do
    : >"$WORK/forward"
    KUBECTL_PORT_FORWARD_WEBSOCKETS=$websockets kubectl port-forward pod/web :80 >"$WORK/forward" 2>&1 &
    forward=$!
    step 'until grep -q Forwarding "$WORK/forward"; do sleep 0.05; done; cat "$WORK/forward"' '^Forwarding from 127.0.0.1:'
    step 'port=$(sed -n "s/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p" "$WORK/forward"); curl -sS "http://127.0.0.1:$port/" "http://127.0.0.1:$port/"' '^simulated pod streams/web, container web, port 80$'
    end TERM "$forward"
done
step 'kubectl delete pod web crash --grace-period=1' 'deleted'
