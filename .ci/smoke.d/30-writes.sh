# All commands that change an object, and conflicts between them.
namespace writes
cat >"$WORK/objects.yaml" <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: applied}
data: {k: v1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: nginx:1
        ports: [{containerPort: 80}]
Y
sed 's/k: v1/k: v2/; s/nginx:1/nginx:2/' "$WORK/objects.yaml" >"$WORK/objects2.yaml"

step 'kubectl create configmap c1 --from-literal=a=b' '^configmap/c1 created'
refused 'kubectl create configmap c1 --from-literal=a=b' 'configmaps "c1" already exists'
step 'kubectl get cm c1' '^c1 +1 '
step 'kubectl get cm c1 -o yaml' 'a: b' 'resourceVersion: "[0-9]+"' 'uid: [0-9a-f-]{36}' '!managedFields'
step 'kubectl get cm c1 -o yaml --show-managed-fields' 'manager: kubectl-create' 'operation: Update'
step 'kubectl create secret generic s1 --from-literal=p=q' '^secret/s1 created'
step 'kubectl get secret s1 -o jsonpath="{.data.p}"' '^cQ==$'
step 'kubectl get secret s1' '^s1 +Opaque +1 '
step 'kubectl create --dry-run=server configmap dry --from-literal=a=b' 'created \(server dry run\)'
refused 'kubectl get cm dry' 'not found'

step 'kubectl diff -f $WORK/objects.yaml; [ $? = 1 ]' '\+ +k: v1'
step 'kubectl apply -f $WORK/objects.yaml' '^configmap/applied created' '^deployment.apps/web created'
step 'kubectl apply -f $WORK/objects.yaml' '^configmap/applied unchanged' '^deployment.apps/web unchanged'
step 'kubectl diff -f $WORK/objects2.yaml; [ $? = 1 ]' '^- +k: v1' '^\+ +k: v2' '^\+.*nginx:2'
step 'kubectl apply -f $WORK/objects2.yaml' '^configmap/applied configured' '^deployment.apps/web configured'
step 'kubectl diff -f $WORK/objects2.yaml' '!^[+-]'
step 'kubectl rollout status deploy/web --timeout=$WAIT' 'successfully rolled out'
step 'kubectl get cm applied -o jsonpath="{.data.k}"' '^v2$'
step 'kubectl apply view-last-applied cm applied' 'k: v2'
step 'kubectl apply --server-side -f $WORK/objects2.yaml' '^configmap/applied serverside-applied'
step 'kubectl apply --server-side --field-manager=one -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {k: one}}
Y' 'shared serverside-applied'
refused 'kubectl apply --server-side --field-manager=two -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {k: two}}
Y' 'conflict with "one"' '\.data\.k'
step 'kubectl apply --server-side --force-conflicts --field-manager=two -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {k: two}}
Y' 'shared serverside-applied'
step 'kubectl get cm shared -o jsonpath="{.data.k}"' '^two$'
step 'kubectl apply --server-side --field-manager=two -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}
Y' 'shared serverside-applied'
step 'kubectl get cm shared -o jsonpath="[{.data.k}]"' '^\[\]$'

step 'kubectl label deployment web tier=web' 'labeled'
step 'kubectl get deploy -l tier=web' '^web'
refused 'kubectl label deployment web tier=other' 'already has a value'
step 'kubectl label deployment web tier=other --overwrite' 'labeled'
step 'kubectl label deployment web tier-' 'unlabeled'
step 'kubectl annotate deployment web note=hello' 'annotated'
step 'kubectl get deploy web -o jsonpath="{.metadata.annotations.note}"' '^hello$'
step 'kubectl annotate deployment web note-' 'annotated'

step "kubectl patch deployment web -p '{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"env\":[{\"name\":\"A\",\"value\":\"b\"}]}]}}}}'" 'patched'
step 'kubectl get deploy web -o jsonpath="{.spec.template.spec.containers[*].image} {.spec.template.spec.containers[0].env[0].name}"' '^nginx:2 A$'
step "kubectl patch deployment web --type=merge -p '{\"metadata\":{\"labels\":{\"x\":\"y\"}}}'" 'patched'
step "kubectl patch deployment web --type=json -p '[{\"op\":\"test\",\"path\":\"/metadata/labels/x\",\"value\":\"y\"},{\"op\":\"add\",\"path\":\"/metadata/labels/z\",\"value\":\"1\"}]'" 'patched'
step 'kubectl get deploy web --show-labels' 'x=y,z=1'
refused "kubectl patch deployment web --type=json -p '[{\"op\":\"test\",\"path\":\"/metadata/labels/x\",\"value\":\"n\"}]'" 'test|Invalid|invalid'
step "kubectl patch deployment web --type=merge -p '{\"metadata\":{\"labels\":{\"x\":null}}}'" 'patched'
step 'kubectl get deploy web --show-labels' '!x=y'
step "kubectl patch deployment web --subresource=status --type=merge -p '{\"status\":{\"collisionCount\":7}}'" 'patched'
refused "kubectl patch configmap c1 --type=merge -p '{\"data\":'" '\(BadRequest\)'

step 'kubectl get cm applied -o yaml >$WORK/stale.yaml; kubectl label cm applied moved=on' 'labeled'
refused 'kubectl replace -f $WORK/stale.yaml' '\(Conflict\)|the object has been modified; please apply your changes to the latest version'
step 'sed -i "/resourceVersion/d; s/k: v2/k: v3/" $WORK/stale.yaml; kubectl replace -f $WORK/stale.yaml' 'configmap/applied replaced'
step 'kubectl get cm applied -o jsonpath="{.data.k}"' '^v3$'
step 'kubectl replace --force -f $WORK/stale.yaml' 'deleted' 'replaced'
step 'KUBE_EDITOR="sed -i s/v3/v4/" kubectl edit cm applied' 'edited'
step 'kubectl get cm applied -o jsonpath="{.data.k}"' '^v4$'

step 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {generateName: made-}}
Y' '^configmap/made-[a-z0-9]{5} created'
step 'kubectl delete cm --all' 'configmap "c1" deleted'
step 'kubectl delete -f $WORK/objects2.yaml --ignore-not-found --timeout=$WAIT' 'deployment.apps "web" deleted'
step 'kubectl create role r --verb=get --resource=pods && kubectl create rolebinding rb --role=r --user=joe' 'rb created'
step 'kubectl auth can-i get pods --as=joe -n writes' '^yes$'
refused 'kubectl auth can-i delete pods --as=joe -n writes' '^no'
step 'kubectl get pods --as=joe 2>&1 || true' 'Forbidden.*cannot list resource "pods" in API group ""'
step 'kubectl create token default' '^ey[A-Za-z0-9_-]+[.]ey[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+$'
kubectl config view --raw --minify | sed '/client-\(certificate\|key\)-data/d' >"$WORK/nobody.kubeconfig"
step 'kubectl --kubeconfig "$WORK/nobody.kubeconfig" --token "$(kubectl create token default)" auth whoami -o yaml' \
    'system:serviceaccount:writes:default'
refused 'kubectl create token default --duration=1m' 'may not specify a duration less than 10 minutes'
