# Cascading deletion of owners and namespaces, and finalizers.
namespace cascades

step 'kubectl create deployment back --image=x --replicas=2 && kubectl rollout status deployment back --timeout=$WAIT' 'rolled out'
step 'kubectl delete deployment back --cascade=background' 'deleted'
step 'kubectl wait --for=delete rs -l app=back --timeout=$WAIT; kubectl wait --for=delete pod -l app=back --timeout=$WAIT
    kubectl get rs,pods -l app=back' 'No resources found'

step 'kubectl create deployment front --image=x --replicas=2 && kubectl rollout status deployment front --timeout=$WAIT' 'rolled out'
step 'kubectl delete deployment front --cascade=foreground --timeout=$WAIT; kubectl get rs,pods -l app=front' \
    'deployment.apps "front" deleted' 'No resources found'

step 'kubectl create deployment alone --image=x --replicas=2 && kubectl rollout status deployment alone --timeout=$WAIT' 'rolled out'
step 'kubectl delete deployment alone --cascade=orphan' 'deleted'
step 'sleep 1; kubectl get rs,pods -l app=alone' '^replicaset.apps/alone-' '^pod/alone-.* Running'
step 'kubectl get rs -l app=alone -o jsonpath="[{.items[0].metadata.ownerReferences}]"' '^\[\]$'
step 'kubectl create deployment alone --image=x --replicas=2 && kubectl rollout status deployment alone --timeout=$WAIT' 'rolled out'
step 'kubectl get rs -l app=alone -o jsonpath="{.items[*].metadata.ownerReferences[0].kind}"' '^Deployment$'
step 'kubectl delete deployment alone --wait=false' 'deleted'

step 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}
Y' 'created'
step 'kubectl delete cm held --wait=false; kubectl get cm held -o jsonpath="{.metadata.deletionTimestamp}"' '^20[0-9]{2}-'
step "kubectl patch cm held --type=merge -p '{\"metadata\":{\"finalizers\":null}}'" 'patched'
refused 'kubectl get cm held' 'not found'

step 'kubectl run slow --image=x --grace-period=30 2>/dev/null || kubectl run slow --image=x' 'pod/slow created'
step 'kubectl wait --for=condition=Ready pod/slow --timeout=$WAIT' 'condition met'
step 'kubectl delete pod slow --grace-period=0 --force 2>&1' 'force deleted'
refused 'kubectl get pod slow' 'not found'

step 'kubectl create ns foo && kubectl -n foo create deployment d --image=x --replicas=2 && kubectl -n foo rollout status deployment d --timeout=$WAIT' 'rolled out'
step 'kubectl -n foo create cm c && kubectl -n foo create secret generic s' 'secret/s created'
step 'kubectl get cm -n foo' '^kube-root-ca.crt'
step 'kubectl delete ns foo --timeout=$WAIT' 'namespace "foo" deleted'
refused 'kubectl get ns foo' 'namespaces "foo" not found'
refused 'kubectl -n foo create cm c' 'namespaces "foo" not found'
step 'kubectl get all -n foo' 'No resources found'
refused 'kubectl delete ns kube-system' 'forbidden|Forbidden|may not be deleted'
