# Claims and volumes: a claim gets a volume of the default class when a pod uses it, is expanded, and is deleted with its volume.
# A pod stays pending until its claim has a volume on a node.
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
step 'kubectl wait --for=jsonpath={.status.phase}=Bound pvc/data --timeout=$WAIT' 'persistentvolumeclaim/data condition met'
step 'kubectl get pvc data' '^data +Bound +pvc-[0-9a-f-]+ +1Gi +RWO +standard '
step 'kubectl get pv' '^pvc-[0-9a-f-]+ +1Gi +RWO +Delete +Bound +volumes/data +standard '
step 'kubectl patch pvc data -p "{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"2Gi\"}}}}"' '^persistentvolumeclaim/data patched$'
step 'kubectl wait --for=jsonpath={.status.capacity.storage}=2Gi pvc/data --timeout=$WAIT' 'condition met'
eventually 'kubectl describe pvc data' 'VolumeResizeSuccessful' 'kubernetes.io/pvc-protection'
step 'kubectl delete pod/holder pvc/data --timeout=$WAIT' 'pod "holder" deleted' 'persistentvolumeclaim "data" deleted'
step 'kubectl wait --for=delete pv --all --timeout=$WAIT; kubectl get pv' 'No resources found'

step 'kubectl create -f - <<Y
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: smoke-local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], storageClassName: smoke-local, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: local}
spec:
  volumes: [{name: data, persistentVolumeClaim: {claimName: disk}}]
  containers: [{name: c, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}]
Y' 'storageclass.storage.k8s.io/smoke-local created' 'persistentvolumeclaim/disk created' 'pod/local created'
step 'kubectl wait --for=jsonpath={.status.conditions[0].reason}=Unschedulable pod/local --timeout=$WAIT' 'pod/local condition met'
step 'kubectl get pod local -o jsonpath={.status.phase}:{.status.conditions[0].message}' "^Pending:0/[0-9]+ nodes are available: .*node\(s\) didn't find available persistent volumes to bind"
eventually 'kubectl events --for pod/local' "FailedScheduling .*node\(s\) didn't find available persistent volumes to bind"
step 'kubectl create -f - <<Y
apiVersion: v1
kind: PersistentVolume
metadata: {name: smoke-disk}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  local: {path: /disk}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: smoke-local
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]}]}}
Y' 'persistentvolume/smoke-disk created'
step 'kubectl wait --for=condition=Ready pod/local --timeout=$WAIT' 'pod/local condition met'
step 'kubectl get pod local -o wide' '^local +1/1 +Running .* node-1 '
step 'kubectl get pv smoke-disk' '^smoke-disk +1Gi +RWO +Retain +Bound +volumes/disk +smoke-local '
step 'kubectl delete pod/local pvc/disk pv/smoke-disk storageclass/smoke-local --timeout=$WAIT' 'pod "local" deleted' 'persistentvolume "smoke-disk" deleted'
