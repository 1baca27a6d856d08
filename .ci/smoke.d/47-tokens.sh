# Every pod has a token of its service account: programs in the pod act as that account, and a node cannot write objects of
# another node.
namespace tokens

mounted=/var/run/secrets/kubernetes.io/serviceaccount
step 'kubectl run reader --image=busybox' 'pod/reader created'
step 'kubectl wait --for=condition=Ready pod/reader --timeout=$WAIT' 'pod/reader condition met'
step 'kubectl get pod reader -o yaml' '^  - name: kube-api-access-[a-z0-9]{5}$' '^          expirationSeconds: 3607$' \
    "^    - mountPath: $mounted\$"
step "kubectl exec reader -- ls $mounted" '^ca.crt$' '^namespace$' '^token$'
step "kubectl exec reader -- cat $mounted/namespace" '^tokens$'
step "kubectl exec reader -- cat $mounted/ca.crt" 'BEGIN CERTIFICATE'
kubectl config view --raw --minify | sed '/client-\(certificate\|key\)-data/d' >"$WORK/nobody.kubeconfig"
step "kubectl --kubeconfig \"\$WORK/nobody.kubeconfig\" --token \"\$(kubectl exec reader -- cat $mounted/token)\" auth whoami -o yaml" \
    'username: system:serviceaccount:tokens:default' 'authentication.kubernetes.io/pod-name'
step 'kubectl create -f - <<Y
apiVersion: v1
kind: ServiceAccount
metadata: {name: quiet}
automountServiceAccountToken: false
Y' 'serviceaccount/quiet created'
step 'kubectl run without --image=busybox --overrides="{\"spec\":{\"serviceAccountName\":\"quiet\"}}"' 'pod/without created'
step 'kubectl get pod without -o yaml' 'serviceAccountName: quiet' '!kube-api-access'
refused 'kubectl run lost --image=busybox --overrides="{\"spec\":{\"serviceAccountName\":\"none\"}}"' \
    'pods "lost" is forbidden: error looking up service account tokens/none: serviceaccount "none" not found'
refused 'kubectl label node node-1 a=b --as=system:node:node-0 --as-group=system:nodes' \
    'cannot read .node-1., only its own Node object'
refused 'kubectl patch node node-1 --type=merge -p "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}" --as=system:node:node-0 --as-group=system:nodes' \
    'nodes "node-1" is forbidden: (node "node-0" is not allowed to modify node "node-1"|.*only its own Node object)'
refused 'kubectl label node node-0 node-restriction.kubernetes.io/a=b --as=system:node:node-0 --as-group=system:nodes' \
    'nodes "node-0" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/a'
