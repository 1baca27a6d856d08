# Invalid commands get Kubernetes' error messages and change nothing.
namespace refusals

refused 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dta: {a: b}}
Y' 'unknown field "dta"'
refused 'kubectl create --validate=strict -f - <<Y
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replica: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
Y' 'unknown field "spec.replica"'
step 'kubectl create --validate=warn -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: warned}, dta: {a: b}}
Y' 'Warning: unknown field "dta"' 'configmap/warned created'
step 'kubectl create --validate=ignore -f - <<Y
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ignored}, dta: {a: b}}
Y' 'configmap/ignored created' '!Warning'
refused 'kubectl create cm Not_A_Name' 'Invalid value: "Not_A_Name"' 'RFC 1123'
refused 'kubectl create -f - <<Y
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: i}]}}}}
Y' '`selector` does not match template `labels`'
refused 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}
Y' 'spec.containers: Required value'
refused 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 99999}]}}
Y' 'spec.ports\[0\].port: Invalid value: 99999.*between 1 and 65535'
refused 'kubectl create --validate=false -f - <<Y
---
{apiVersion: v1, kind: Nonsense, metadata: {name: a}}
Y' 'no matches for kind "Nonsense" in version "v1"'
refused 'kubectl get nonsense' 'the server doesn.t have a resource type "nonsense"'
refused 'kubectl get pod nobody' 'Error from server \(NotFound\): pods "nobody" not found'
refused 'kubectl get --raw /api/v1/nonsense' 'the server could not find the requested resource'
refused 'kubectl get --raw /nonsense' 'NotFound|could not find|not found|404'
refused 'kubectl create --raw /api/v1/namespaces/refusals/configmaps -f - <<Y
{"apiVersion":"v1","kind":"ConfigMap","metadata":
Y' 'BadRequest|bad request|unexpected|EOF|the server rejected our request'
refused 'kubectl create --raw /api/v1/namespaces/refusals/configmaps -f - <<Y
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}
Y' 'BadRequest|cannot be handled|does not match|rejected our request'
refused 'kubectl create --raw /api/v1/namespaces/refusals/configmaps -f - <<Y
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"other"}}
Y' 'does not match the namespace|BadRequest|rejected our request'
step 'kubectl create deployment d --image=x && kubectl rollout status deployment d --timeout=$WAIT' 'rolled out'
refused 'kubectl create deployment d --image=x' 'deployments.apps "d" already exists'
refused "kubectl patch deployment d --type=merge -p '{\"spec\":{\"selector\":{\"matchLabels\":{\"b\":\"c\"}}}}'" 'field is immutable'
refused "kubectl patch deployment d --type=merge -p '{\"spec\":{\"replicas\":-1}}'" 'must be greater than or equal to 0'
refused 'kubectl get --raw "/api/v1/namespaces/refusals/pods/$(kubectl get pods -l app=d -o jsonpath="{.items[0].metadata.name}"):81/proxy/"' 'error trying to reach service: dial tcp .*: connect: connection refused'
refused 'head -c 1600000 /dev/zero | tr "\0" x >$WORK/large; kubectl create cm large --from-file=$WORK/large' 'Too long|too large|TooLarge|RequestEntityTooLarge'
refused 'head -c 4000000 /dev/zero | tr "\0" x >$WORK/large; kubectl create cm large --from-file=$WORK/large' 'oo large|TooLarge|RequestEntityTooLarge'
refused 'kubectl --token=nonsense --client-certificate= --client-key= --kubeconfig=/dev/null --server=$(kubectl config view -o jsonpath="{.clusters[0].cluster.server}") --insecure-skip-tls-verify get pods' 'Unauthorized|must be logged in'
refused 'kubectl create quota q --hard=pods=1 && sleep 1; kubectl create quota q --hard=pods=1' 'already exists'
step 'kubectl delete ns refusals --wait=false' 'deleted'
