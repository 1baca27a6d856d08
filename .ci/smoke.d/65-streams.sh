# Streaming connections: logs, commands, terminals and ports of simulated containers.
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
    image: app
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
step 'kubectl wait pod/web --for=condition=Ready --timeout=$WAIT' 'met$'

step 'kubectl logs web -c web' '^simulated container web started \(image app\)$'
step 'kubectl logs web -c talk --tail=-1' '^one$' '^two$'
eventually 'kubectl logs web -c talk --tail=1' '^tick '
step 'kubectl logs web -c talk --timestamps | sed -n 1p' '^20[0-9-]+T[0-9:]+\.[0-9]{9}Z one$'
# By then the first lines are older than a second.
step 'sleep 2; kubectl logs web -c talk --since=1s' '^tick ' '!two'
step 'kubectl logs -l app=web --all-containers --prefix --tail=1' '^\[pod/web/web\] simulated' '^\[pod/web/talk\] tick '
rm -f "$WORK/followed" "$WORK/attached"
step 'kubectl logs -f web -c talk --tail=0 >"$WORK/followed" & until grep -qs "^tick " "$WORK/followed"; do sleep 0.1; done; kill $! && cat "$WORK/followed"' '^tick '
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

# Copying files and folders, in both directions.
mkdir -p "$WORK/tree/in" && echo one >"$WORK/tree/a" && head -c 200000 /dev/urandom >"$WORK/tree/in/b"
step 'kubectl cp "$WORK/tree" web:/tmp/tree -c web && kubectl exec web -c web -- find /tmp/tree' '^/tmp/tree/a$' '^/tmp/tree/in/b$'
step 'kubectl cp web:/tmp/tree "$WORK/back" -c web && diff -r "$WORK/tree" "$WORK/back" && echo same' '^same$'
step 'kubectl cp "$WORK/tree/a" web:/tmp -c web && kubectl exec web -c web -- cat /tmp/a' '^one$'
step 'kubectl cp --retries=2 web:etc/hostname "$WORK/hostname" -c web && cat "$WORK/hostname"' '^web$'
refused 'kubectl cp web:/nope "$WORK/nope" -c web' 'nope: No such file or directory'
refused 'kubectl cp "$WORK/tree/a" web:/etc/config/a -c web' 'Read-only file system'
step "echo piped | kubectl exec -i web -c web -- sh -c 'cat > /tmp/piped; grep -c piped < /tmp/piped | tee /tmp/count'" '^1$'
# SPDY, as clients used before WebSockets.
step 'KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec web -c web -- echo spdy' '^spdy$'
step 'echo piped | KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec -i web -c web -- cat' '^piped$'
refused "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec web -c web -- sh -c 'exit 4'" 'exit code 4'
step 'kubectl attach web -c talk >"$WORK/attached" 2>&1 & until grep -qs "^tick " "$WORK/attached"; do sleep 0.1; done; kill $! && cat "$WORK/attached"' '^tick '

for websockets in true false; do
    : >"$WORK/forward"
    KUBECTL_PORT_FORWARD_WEBSOCKETS=$websockets kubectl port-forward pod/web :80 >"$WORK/forward" 2>&1 &
    forward=$!
    step 'until grep -q Forwarding "$WORK/forward"; do sleep 0.05; done; cat "$WORK/forward"' '^Forwarding from 127.0.0.1:'
    step 'port=$(sed -n "s/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p" "$WORK/forward"); curl -sS "http://127.0.0.1:$port/" "http://127.0.0.1:$port/"' '^simulated pod streams/web, container web, port 80$'
    end TERM "$forward"
done

# Proxied requests.
step 'kubectl expose pod web --port=80 && kubectl wait --for=jsonpath={.endpoints[0].conditions.ready}=true endpointslice -l kubernetes.io/service-name=web --timeout=$WAIT' 'met$'
step 'kubectl get --raw /api/v1/namespaces/streams/pods/web:80/proxy/' '^simulated pod streams/web, container web, port 80$'
step 'kubectl get --raw /api/v1/namespaces/streams/services/http:web:80/proxy/any/path?a=b' '^simulated pod streams/web'
refused 'kubectl get --raw /api/v1/namespaces/streams/services/web:81/proxy/' 'no service port 81 found for service "web"'
refused 'kubectl get --raw /api/v1/namespaces/streams/pods/web:81/proxy/' 'error trying to reach service: dial tcp .*:81: connect: connection refused'
step 'node=$(kubectl get pod web -o jsonpath={.spec.nodeName}); kubectl get --raw /api/v1/nodes/$node/proxy/healthz; kubectl get --raw /api/v1/nodes/$node/proxy/pods' '^ok' '"PodList"'
: >"$WORK/proxy"
kubectl proxy --port=0 >"$WORK/proxy" 2>&1 &
proxy=$!
step 'until grep -q Starting "$WORK/proxy"; do sleep 0.05; done; cat "$WORK/proxy"' '^Starting to serve on 127.0.0.1:'
at='http://$(sed -n "s/^Starting to serve on //p" "$WORK/proxy")/api/v1/namespaces/streams'
step "curl -sSL -o - -w '%{http_code}' $at/pods/web/proxy" '^simulated pod streams/web' '^200$'
step "head -c 1000000 /dev/zero | curl -sS -T - $at/services/web:80/proxy/upload" '^simulated pod streams/web'
step "curl -sS -X DELETE -o /dev/null -w '%{http_code}' $at/services/nope:80/proxy/" '^404$'
end TERM "$proxy"

# Interactive processes.
step "printf 'hostname\nexit 3\n' | kubectl run typed -i --rm --restart=Never --image=busybox --quiet -- sh; echo code \$?" '^typed$' '^code 3$'
step "script -qec 'kubectl run term -it --rm --restart=Never --image=busybox -- echo on a terminal' /dev/null" '^on a terminal' 'pod "term" deleted'
step "printf 'cat /etc/hostname\n' | kubectl debug web -i --image=busybox --container=look --target=web; kubectl get pod web -o jsonpath={.status.ephemeralContainerStatuses[0].state}" '^web$' 'running|terminated'
step 'kubectl delete pod web crash --grace-period=1' 'deleted'
