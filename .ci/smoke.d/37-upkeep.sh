# Small controllers: autoscalers, mirrored Endpoints, ephemeral volume claims, node TTLs.
namespace upkeep

step 'kubectl create deployment web --image=nginx' '^deployment.apps/web created$'
step 'kubectl autoscale deployment web --min=2 --max=5 --cpu-percent=50' '^horizontalpodautoscaler.autoscaling/web autoscaled$'
step 'kubectl wait --for=jsonpath={.status.readyReplicas}=2 deployment/web --timeout=$WAIT' 'deployment.apps/web condition met'
step 'kubectl wait --for=condition=ScalingActive=False hpa/web --timeout=$WAIT' 'horizontalpodautoscaler.autoscaling/web condition met'
eventually 'kubectl describe hpa web' 'AbleToScale +True' 'FailedGetResourceMetric' 'New size: 2; reason: Current number of replicas below Spec.MinReplicas'
step 'kubectl delete hpa web' '"web" deleted'

step 'kubectl create -f - <<Y
---
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: outside}
subsets: [{addresses: [{ip: 192.0.2.10}], ports: [{port: 8080}]}]
Y' 'service/outside created' 'endpoints/outside created'
step 'kubectl wait --for=create endpointslice -l kubernetes.io/service-name=outside --timeout=$WAIT; kubectl get endpointslice -l kubernetes.io/service-name=outside' '^outside-[a-z0-9]+ +IPv4 +8080 +192\.0\.2\.10 '

step 'kubectl create -f - <<Y
apiVersion: v1
kind: Pod
metadata: {name: scratch}
spec:
  volumes: [{name: data, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]
  containers: [{name: c, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}]
Y' 'pod/scratch created'
step 'kubectl wait --for=jsonpath={.status.phase}=Bound pvc/scratch-data --timeout=$WAIT' 'persistentvolumeclaim/scratch-data condition met'
step 'kubectl delete pod scratch; kubectl wait --for=delete pvc/scratch-data --timeout=$WAIT; kubectl get pvc' 'pod "scratch" deleted' 'No resources found'

step 'kubectl get nodes -o jsonpath="{.items[0].metadata.annotations.node\.alpha\.kubernetes\.io/ttl}"' '^0$'
