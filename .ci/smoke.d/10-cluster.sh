# First commands of a user: health, API resources, identity.
step 'kubectl version' 'Client Version: v1\.' 'Server Version: v1\.'
step 'kubectl cluster-info' 'Kubernetes control plane.* is running at .*https://127\.0\.0\.1:'
step 'kubectl get --raw /readyz' '^ok$'
step 'kubectl get --raw "/readyz?verbose"' '\[\+\].* ok' 'check passed'
step 'kubectl get --raw /livez' '^ok$'
step 'kubectl get --raw /version' '"gitVersion"'
step 'kubectl api-versions' '^v1$' '^apps/v1$' '^batch/v1$' '^rbac.authorization.k8s.io/v1$'
step 'kubectl api-resources' '^deployments +deploy +apps/v1 +true +Deployment' '^nodes +no +v1 +false +Node'
step 'kubectl api-resources -o wide' '^pods .*create,delete,deletecollection,get,list,patch,update,watch +all'
step 'kubectl api-resources --namespaced=false -o name' '^nodes$' '^clusterroles.rbac.authorization.k8s.io$' '!^pods$'
step 'kubectl api-resources --api-group=apps -o name | sort | tr "\n" " "' \
    'controllerrevisions.apps daemonsets.apps deployments.apps replicasets.apps statefulsets.apps'
step 'kubectl explain pod.spec' '^KIND: +Pod' '^VERSION: +v1' 'containers' '-required-' 'Containe'
step 'kubectl explain deployment.spec.strategy.rollingUpdate' '^GROUP: +apps' 'maxSurge' 'maxUnavailable'
step 'kubectl explain pods --recursive' 'terminationGracePeriodSeconds'
refused 'kubectl explain pod.spec.nonsense' 'field "nonsense" does not exist'
step 'kubectl auth whoami' 'Username' 'Groups +.*system:masters'
step 'kubectl auth can-i create pods' '^yes$'
step 'kubectl auth can-i "*" "*" --all-namespaces' '^yes$'
refused 'kubectl auth can-i create pods --as=nobody' '^no'
step 'kubectl auth can-i --list' 'Resources +Non-Resource URLs'
# For kinds that cannot be patched, kubectl checks whether they are custom.
cat >"$WORK/review.yaml" <<'YAML'
apiVersion: authorization.k8s.io/v1
kind: SelfSubjectAccessReview
spec: {resourceAttributes: {verb: create, resource: pods}}
YAML
step 'kubectl create -o yaml -f "$WORK/review.yaml"' 'allowed: true'
cat >"$WORK/list.yaml" <<'YAML'
apiVersion: v1
kind: ConfigMapList
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: two}}
YAML
step 'kubectl create -f "$WORK/list.yaml"' 'configmap/one created' 'configmap/two created'
step 'kubectl delete configmap one two' 'deleted'
eventually 'kubectl get nodes' '^NAME +STATUS +ROLES +AGE +VERSION' '^node-0 +Ready' '^node-2 +Ready'
step 'kubectl get nodes -o wide' 'INTERNAL-IP' 'CONTAINER-RUNTIME'
step 'kubectl get node node-1 -o yaml' '^kind: Node' 'podCIDR:' 'type: Ready'
step 'kubectl get nodes -o jsonpath="{.items[*].metadata.name}"' '^node-0 node-1 node-2$'
step 'kubectl describe node node-0' '^Conditions:' 'Ready +True' '^Allocated resources:'
step 'kubectl get ns' '^default +Active' '^kube-system +Active' '^kube-public +Active' '^kube-node-lease +Active'
step 'kubectl get lease -n kube-node-lease' '^node-0 +node-0'
step 'kubectl get svc kubernetes -n default' '^kubernetes +ClusterIP .* 443/TCP'
step 'kubectl get sa default -n default' '^default'
step 'kubectl get clusterroles' '^cluster-admin' '^view' '^edit' '^admin'
