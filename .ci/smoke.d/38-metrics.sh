# Resource usage of nodes and pods, from the pods' annotations: `kubectl top`, and autoscalers.
namespace metrics

step 'kubectl wait --for=condition=Available apiservice/v1beta1.metrics.k8s.io --timeout=$WAIT' 'condition met'
step 'kubectl get apiservice v1beta1.metrics.k8s.io' '^v1beta1.metrics.k8s.io +kube-system/metrics-server +True'
step 'kubectl top nodes' '^NAME +CPU\(cores\) +CPU(%|\(%\)) +MEMORY\(bytes\) +MEMORY(%|\(%\))' '^node-0 +[0-9]+m +[0-9]+% +[0-9]+Mi +[0-9]+%' '^node-2 ' '!unknown'
step 'kubectl create -f - <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: load, labels: {app: load}}
spec:
  selector: {matchLabels: {app: load}}
  template:
    metadata:
      labels: {app: load}
      annotations:
        kubelet-sim.kstore.io/cpu: 200m
        kubelet-sim.kstore.io/memory: 64Mi
        kubelet-sim.kstore.io/log.cpu: 50m
    spec:
      containers:
      - {name: web, image: nginx, resources: {requests: {cpu: 100m}}}
      - {name: log, image: busybox, resources: {requests: {cpu: 100m}}}
Y' '^deployment.apps/load created$'
step 'kubectl rollout status deployment load --timeout=$WAIT' 'rolled out'
step 'kubectl top pods' '^NAME +CPU\(cores\) +MEMORY\(bytes\)' '^load-[^ ]+ +250m +128Mi'
step 'kubectl top pods --containers' '^load-[^ ]+ +web +200m +64Mi' '^load-[^ ]+ +log +50m +64Mi'
step 'kubectl top pods -A -l app=load --sum' '^metrics +load-' '250m +128Mi'
step 'kubectl top pods -l app=other 2>&1' 'No resources found'
step 'kubectl get pods.metrics.k8s.io' '^NAME +CPU +MEMORY +WINDOW' '^load-[^ ]+ +250m +128Mi +15s'
step 'kubectl get --raw /apis/metrics.k8s.io/v1beta1/namespaces/metrics/pods' '"PodMetricsList"' '"cpu":"200m"'
step 'kubectl get --raw /apis/metrics.k8s.io/v1beta1/nodes/node-1' '"NodeMetrics"' '"window":"15s"'
step 'node=$(kubectl get pods -o jsonpath="{.items[0].spec.nodeName}"); kubectl get --raw /api/v1/nodes/$node/proxy/stats/summary; kubectl get --raw /api/v1/nodes/$node/proxy/metrics/resource' '"usageNanoCores":200000000' '"workingSetBytes":67108864' '^container_memory_working_set_bytes[{]container="web",namespace="metrics",pod="load-[^"]+"[}] 67108864 [0-9]+$'
step 'kubectl api-resources --api-group=metrics.k8s.io' '^nodes .*false +NodeMetrics' '^pods .*true +PodMetrics'
refused 'kubectl top pod nothing' 'NotFound.*podmetrics.metrics.k8s.io "metrics/nothing" not found'
refused 'kubectl top pods --as=jane' 'Forbidden.*cannot list resource "pods" in API group "metrics.k8s.io"'
step 'kubectl create rolebinding jane --clusterrole=view --user=jane && kubectl top pods --as=jane' '^load-[^ ]+ +250m'

step 'kubectl autoscale deployment load --min=1 --max=3 --cpu-percent=50' 'autoscaled'
step 'kubectl wait --for=jsonpath={.status.readyReplicas}=3 deployment/load --timeout=$WAIT' 'condition met'
step 'kubectl wait --for=condition=ScalingActive hpa/load --timeout=$WAIT && kubectl get hpa load' '^load +Deployment/load +.*125%/50% +1 +3 '
step 'kubectl annotate pods -l app=load --overwrite kubelet-sim.kstore.io/cpu=5m kubelet-sim.kstore.io/log.cpu=0 && kubectl top pods' '^load-[^ ]+ +5m +128Mi' '!250m'
step "kubectl patch hpa load --type=merge -p '{\"spec\":{\"behavior\":{\"scaleDown\":{\"stabilizationWindowSeconds\":0}}}}'" 'patched'
step 'kubectl wait --for=jsonpath={.status.replicas}=1 deployment/load --timeout=$WAIT' 'condition met'
step 'kubectl delete hpa,deployment load && kubectl get apiservice v1beta1.metrics.k8s.io' 'True'
