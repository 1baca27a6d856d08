# Claims and volumes: a claim gets a volume of the default class when a pod uses it, grows, and goes with its volume.
namespace volumes

step 'kubectl get storageclass' '^standard \(default\) +volumes\.kstore\.dev +Delete +WaitForFirstConsumer +true '
step 'kubectl create -f - <<Y
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: holder}
spec:
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers: [{name: c, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}]
Y' 'persistentvolumeclaim/data created' 'pod/holder created'
step 'kubectl wait --for=jsonpath={.status.phase}=Bound pvc/data --timeout=30s' 'persistentvolumeclaim/data condition met'
step 'kubectl get pvc data' '^data +Bound +pvc-[0-9a-f-]+ +1Gi +RWO +standard '
step 'kubectl get pv' '^pvc-[0-9a-f-]+ +1Gi +RWO +Delete +Bound +volumes/data +standard '
step 'kubectl patch pvc data -p "{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"2Gi\"}}}}"' '^persistentvolumeclaim/data patched$'
step 'kubectl wait --for=jsonpath={.status.capacity.storage}=2Gi pvc/data --timeout=30s' 'condition met'
step 'kubectl describe pvc data' 'VolumeResizeSuccessful' 'kubernetes.io/pvc-protection'
step 'kubectl delete pod/holder pvc/data --timeout=60s' 'pod "holder" deleted' 'persistentvolumeclaim "data" deleted'
step 'kubectl wait --for=delete pv --all --timeout=30s; kubectl get pv' 'No resources found'
