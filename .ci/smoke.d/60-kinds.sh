# One object of every kind that can be created and patched, with the same commands. A kind without a manifest fails. Of the kinds, a part:
# SMOKE_KINDS_PART is its number and how many there are ("0/3"); all, if not set.
namespace kinds

step 'for kind in $(kubectl api-resources --verbs=create,get,patch,delete -o name); do
        [ -e "$MANIFESTS/$kind.yaml" ] || echo "no manifest for $kind"
    done; echo all' '!no manifest' '^all$'
part=${SMOKE_KINDS_PART:-0/1} nth=0
for manifest in "$MANIFESTS"/*.yaml; do
    nth=$((nth + 1))
    [ $((nth % ${part#*/})) = "${part%/*}" ] || continue
    kind=$(basename "$manifest" .yaml)
    watched=$WORK/watched-$kind
    name="kubectl get -f $manifest -o jsonpath={.metadata.name}"
    step "kubectl create -f $manifest" ' created$'
    step "kubectl get -f $manifest" '^NAME|^LAST SEEN'
    step "kubectl get -f $manifest -o yaml" '^apiVersion: ' '^kind: ' 'creationTimestamp:' 'uid:' 'resourceVersion:'
    step "kubectl get $kind -A -o name | grep \$($name)" '/'
    # Emptied here: the redirection below happens in the background, and an earlier round has left lines in it.
    : >"$watched"
    kubectl get -f "$manifest" -w --output-watch-events >"$watched" 2>&1 &
    watch=$!
    step "until grep -q ADDED $watched; do sleep 0.05; done; cat $watched" '^ADDED'
    step "kubectl patch -f $manifest --type=merge -p '{\"metadata\":{\"labels\":{\"patched\":\"merge\"}}}'" 'patched'
    step "kubectl patch -f $manifest --type=json -p '[{\"op\":\"replace\",\"path\":\"/metadata/labels/patched\",\"value\":\"json\"}]'" 'patched'
    step "kubectl label -f $manifest updated=yes" 'labeled'
    step "kubectl get $kind -A -l patched=json,updated=yes -o name" '/'
    step "for try in 1 2 3; do kubectl get -f $manifest -o json | kubectl replace -f - && break; done" 'replaced$'
    # Before 1.33 or 1.34, kubectl describes these kinds through beta versions only.
    case $kind in ipaddresses* | servicecidrs* | volumeattributesclasses*) ;; *) step "kubectl describe -f $manifest" '^Name:' ;; esac
    step "kubectl delete -f $manifest --timeout=$WAIT" 'deleted'
    refused "kubectl get -f $manifest" 'not found'
    step "until grep -q DELETED $watched; do sleep 0.05; done; cat $watched" '^EVENT' '^ADDED' '^MODIFIED' '^DELETED'
    end TERM "$watch"
done
