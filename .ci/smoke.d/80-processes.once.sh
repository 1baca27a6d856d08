# The server as a process: subcommands, separate components, crash, orderly exit.
step 'kstore-server --help' '--in-memory' '--components' 'run' '^Storage:$' '^Serving:$' '^External etcd:$'
step 'kstore-server run --help' 'CMD'
step 'kstore-server explain --help' 'KIND/NAME|OBJECT|NAME'
step 'kstore-server --version' 'kstore-server'
refused 'kstore-server --nonsense' "unexpected argument '--nonsense'"

# `run`: a cluster for one command.
step 'kstore-server run -- sh -c "until kubectl wait --for=condition=Ready node/node-0 --timeout=$WAIT; do sleep 0.1; done; kubectl get nodes"' '^node-0 +Ready'
step 'kstore-server run -- sh -c "kubectl create deployment web --image=nginx && kubectl rollout status deployment/web --timeout=$WAIT"' 'successfully rolled out'
step 'kstore-server run -- sh -c "exit 7"; [ $? = 7 ] && echo seven' '^seven$'
step 'kstore-server run -- sh -c "kubectl create deployment web --image=nginx && kubectl rollout status deployment/web --timeout=$WAIT && kstore-server explain deployment/web"' \
    '[Dd]eployment.*web' '[Rr]eplica[Ss]et' '[Pp]od' 'bind'
step 'kstore-server run -- sh -c "kubectl create deployment web --image=nginx && kstore-server explain deployment/web --depth 0 -o yaml"' \
    'object: deployments/default/web' 'effect: created'
refused 'kstore-server --nodes many' "expected a whole number from 0 to"

# Logs of the start, of requests and of the exit, as text and as JSON.
step 'RUST_LOG=info kstore-server run -- kubectl get nodes 2>&1' 'store opened' 'apiserver listening' 'ready' \
    'request method="GET" path="/api/v1/nodes.* code=200 .*user="kubernetes-admin"' 'stopped'
step 'RUST_LOG=info kstore-server run --log-format json -- kubectl get nodes 2>&1' '"message":"request","method":"GET"'

# Three component processes beside an apiserver, each with its own kubeconfig.
export KUBECONFIG=$WORK/apart/admin.kubeconfig
serve apiserver --components apiserver --data-dir "$WORK/apart" --listen 127.0.0.1:0
apiserver=$server
appears "$KUBECONFIG" || true
step 'kubectl get --raw /readyz' '^ok$'
loops=()
for component in controllers scheduler kubelet-sim; do
    serve "$component" --components "$component" --kubeconfig "$WORK/apart/$component.kubeconfig"
    loops+=("$server")
done
step 'until kubectl get node node-2 >/dev/null 2>&1; do sleep 0.2; done; kubectl wait --for=condition=Ready node --all --timeout=$WAIT' 'node-2 condition met'
step 'kubectl create deployment apart --image=nginx --replicas=3 && kubectl rollout status deployment apart --timeout=$WAIT' 'rolled out'
step 'kubectl get pods' 'apart-.* Running'
for loop in "${loops[@]}"; do end TERM "$loop"; done
step 'kubectl delete deployment apart --wait=false' 'deleted'
end TERM "$apiserver"

# kill -9: acknowledged writes survive.
export KUBECONFIG=$WORK/crash/admin.kubeconfig
serve crash --data-dir "$WORK/crash" --listen 127.0.0.1:0
appears "$KUBECONFIG" || true
step 'kubectl create deployment kept --image=nginx --replicas=3 && kubectl rollout status deployment kept --timeout=$WAIT' 'rolled out'
step 'kubectl create cm last --from-literal=a=b && kubectl get cm last -o jsonpath="{.metadata.resourceVersion}" >$WORK/last' 'created'
end KILL "$server"
rm "$KUBECONFIG"
serve crash-again --data-dir "$WORK/crash" --listen 127.0.0.1:0
appears "$KUBECONFIG" || true
step 'kubectl get cm last -o jsonpath="{.data.a}"' '^b$'
step 'kubectl get deploy kept' '^kept +3/3'
step 'kubectl scale deployment kept --replicas=4 && kubectl rollout status deployment kept --timeout=$WAIT' 'rolled out'
step '[ $(kubectl get deploy kept -o jsonpath="{.metadata.resourceVersion}") -gt $(cat $WORK/last) ] && echo risen' '^risen$'
refused 'kstore-server --data-dir $WORK/crash --listen 127.0.0.1:0' 'in use|another|locked|held'
refused 'kstore-server --in-memory --listen $(kubectl config view -o jsonpath="{.clusters[0].cluster.server}" | sed s,https://,,)' 'in use'

# SIGTERM ends the server in order, even with an open watch. The tests of the workspace hold its two seconds; this bound is that of harnesses.
(timeout 20 kubectl get pods -w >/dev/null 2>&1 || true) &
sleep 0.5
step "before=\$(date +%s%N); kill -TERM $server; while kill -0 $server 2>/dev/null; do sleep 0.02; done
    took=\$((\$(date +%s%N) - before)); echo took \$((took / 1000000)) ms; [ \$took -lt 20000000000 ]" 'took [0-9]+ ms'
wait "$server" && code=0 || code=$?
step "echo exit code $code" '^exit code 0$'

# The other storage engine and the other durability.
export KUBECONFIG=$WORK/sled/admin.kubeconfig
serve sled --data-dir "$WORK/sled" --engine sled --durability relaxed --listen 127.0.0.1:0
appears "$KUBECONFIG" || true
step 'kubectl create deployment other --image=nginx --replicas=2 && kubectl rollout status deployment other --timeout=$WAIT' 'rolled out'
end TERM "$server"
rm -f "$KUBECONFIG"
serve sled-again --data-dir "$WORK/sled" --engine sled --listen 127.0.0.1:0
appears "$KUBECONFIG" || true
step 'kubectl get deploy other' '^other +2/2'
end TERM "$server"
