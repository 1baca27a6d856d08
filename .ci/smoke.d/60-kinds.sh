# One object of every kind that the server can create and patch, through the same verbs. A kind without a manifest fails.
namespace kinds

step 'for kind in $(kubectl api-resources --verbs=create,get,patch,delete -o name); do
        [ -e "$MANIFESTS/$kind.yaml" ] || echo "no manifest for $kind"
    done; echo all' '!no manifest' '^all$'
for manifest in "$MANIFESTS"/*.yaml; do
    kind=$(basename "$manifest" .yaml)
    export manifest kind
    name="kubectl get -f $manifest -o jsonpath={.metadata.name}"
    step "kubectl create -f $manifest" ' created$'
    step "kubectl get -f $manifest" '^NAME|^LAST SEEN'
    step "kubectl get -f $manifest -o yaml" '^apiVersion: ' '^kind: ' 'creationTimestamp:' 'uid:' 'resourceVersion:'
    step "kubectl get $kind -A -o name | grep \$($name)" '/'
    step "kubectl patch -f $manifest --type=merge -p '{\"metadata\":{\"labels\":{\"patched\":\"merge\"}}}'" 'patched'
    step "kubectl patch -f $manifest --type=json -p '[{\"op\":\"replace\",\"path\":\"/metadata/labels/patched\",\"value\":\"json\"}]'" 'patched'
    step "kubectl label -f $manifest updated=yes" 'labeled'
    step "kubectl get $kind -A -l patched=json,updated=yes -o name" '/'
    step "for try in 1 2 3; do kubectl get -f $manifest -o json | kubectl replace -f - && break; done" 'replaced$'
    step "kubectl describe -f $manifest" '^Name:'
    step "timeout 1 kubectl get -f $manifest -w -o name; [ \$? = 124 ]" '/'
    step "kubectl delete -f $manifest --timeout=50s" 'deleted'
    refused "kubectl get -f $manifest" 'not found'
done
