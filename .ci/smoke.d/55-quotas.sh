# A quota limits the objects of a namespace and reports its usage.
namespace quotas

step 'kubectl create quota q --hard=pods=1,requests.cpu=1,count/configmaps=3' 'resourcequota/q created'
eventually 'kubectl get quota q' 'count/configmaps: 1/3'
step 'kubectl describe quota q' 'Resource' 'Used' 'Hard' 'count/configmaps' 'requests.cpu'
refused 'kubectl run greedy --image=i' 'must specify requests.cpu for: greedy'
refused 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}
Y' 'pods "big" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1'
step 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: Pod, metadata: {name: fits}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}}
Y' 'pod/fits created'
step 'kubectl get quota q' 'pods: 1/1' 'requests.cpu: 500m/1'
step 'kubectl create configmap a && kubectl create configmap b' 'configmap/b created'
refused 'kubectl create configmap c' 'exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=3, limited: count/configmaps=3'
step 'kubectl delete configmap a' 'deleted'
eventually 'kubectl get quota q' 'count/configmaps: 2/3'
step 'kubectl create configmap c' 'configmap/c created'
