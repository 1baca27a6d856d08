# Pod security levels and limit ranges of a namespace: admitted pods, and their defaults.
namespace admission

step 'kubectl create -f - <<Y
---
apiVersion: v1
kind: LimitRange
metadata: {name: bounds}
spec:
  limits:
  - {type: Container, default: {cpu: 500m}, defaultRequest: {cpu: 250m}, max: {cpu: "1"}}
  - {type: PersistentVolumeClaim, max: {storage: 1Gi}}
Y' 'limitrange/bounds created'
step 'kubectl run plain --image=i' 'pod/plain created'
step 'kubectl get pod plain -o json' 'LimitRanger plugin set: cpu request for container plain; cpu limit for container plain' '"cpu": "250m"' '"cpu": "500m"'
refused 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]}}
Y' 'pods "big" is forbidden: maximum cpu usage per Container is 1, but limit is 2'
refused 'kubectl create -f - <<Y
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: big}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}
Y' 'maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi'
step 'kubectl label namespace admission pod-security.kubernetes.io/enforce=restricted' \
    'Warning: existing pods in namespace "admission" violate the new PodSecurity enforce level "restricted:latest"' \
    'Warning: plain: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile'
refused 'kubectl run loose --image=i' 'pods "loose" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false \(container "loose" must set'
step 'kubectl create deployment loose --image=i' 'Warning: would violate PodSecurity "restricted:latest"' 'deployment.apps/loose created'
eventually 'kubectl get replicasets -o yaml' 'type: ReplicaFailure' 'violates PodSecurity "restricted:latest"'
step 'kubectl create -f - <<Y
---
apiVersion: v1
kind: Pod
metadata: {name: tight}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - {name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
Y' 'pod/tight created' '!Warning'
refused 'kubectl label namespace admission pod-security.kubernetes.io/warn=strict' 'must be one of privileged, baseline, restricted'
