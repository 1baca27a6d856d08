# A StatefulSet and a DaemonSet: created, rolled out, described, rolled back, restarted, scaled, deleted.
namespace sets

step 'kubectl create -f - <<END
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: "db:1"}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: "agent:1"}]}
END' '^statefulset.apps/db created$' '^daemonset.apps/agent created$'

step 'kubectl rollout status statefulset db --timeout=$WAIT' 'roll out complete: 2 new pods have been updated'
step 'kubectl get sts' '^NAME +READY +AGE$' '^db +2/2 '
step 'kubectl get pods -l app=db -o name' '^pod/db-0$' '^pod/db-1$'
step 'kubectl get pvc' '^data-db-0 ' '^data-db-1 '
eventually 'kubectl describe statefulset db' 'Replicas: +2 desired \| 2 total' 'Pods Status: +2 Running' \
    'create Claim data-db-0 Pod db-0 in StatefulSet db success' 'create Pod db-1 in StatefulSet db successful'
step 'kubectl set image statefulset/db main=db:2' 'image updated'
step 'kubectl rollout status statefulset db --timeout=$WAIT' 'roll out complete: 2 new pods have been updated'
step 'kubectl get controllerrevisions -l app=db' '^NAME +CONTROLLER +REVISION +AGE' 'statefulset.apps/db +1 ' 'statefulset.apps/db +2 '
step 'kubectl rollout history statefulset db' '^REVISION +CHANGE-CAUSE' '^1 ' '^2 '
step 'kubectl rollout history statefulset db --revision=1' 'Image:.*db:1'
step 'kubectl rollout undo statefulset db' 'rolled back'
step 'kubectl rollout status statefulset db --timeout=$WAIT' 'roll out complete: 2 new pods have been updated'
step 'kubectl get pods -l app=db -o jsonpath="{.items[*].spec.containers[0].image}"' '^db:1 db:1$'
step 'kubectl rollout history statefulset db' '!^1 ' '^2 ' '^3 '
step 'kubectl rollout restart statefulset db' 'restarted'
step 'kubectl rollout status statefulset db --timeout=$WAIT' 'roll out complete: 2 new pods have been updated'
step 'kubectl scale statefulset db --replicas=1' 'scaled'
step 'kubectl wait --for=delete pod/db-1 --timeout=$WAIT && kubectl get pods -l app=db -o name' '^pod/db-0$'
step 'kubectl get pvc -o name' 'data-db-1'

step 'kubectl rollout status daemonset agent --timeout=$WAIT' 'daemon set "agent" successfully rolled out'
step 'kubectl get ds' '^NAME +DESIRED +CURRENT +READY +UP-TO-DATE +AVAILABLE +NODE SELECTOR +AGE' '^agent +3 +3 +3 +3 +3 +<none> '
step 'kubectl get pods -l app=agent -o jsonpath="{range .items[*]}{.spec.nodeName}{\"\n\"}{end}" | sort' '^node-0$' '^node-1$' '^node-2$'
eventually 'kubectl describe daemonset agent' 'Desired Number of Nodes Scheduled: 3' 'Pods Status: +3 Running' 'Created pod: agent-'
step 'kubectl set image daemonset/agent main=agent:2' 'image updated'
step 'kubectl rollout status daemonset agent --timeout=$WAIT' 'successfully rolled out'
step 'kubectl rollout history daemonset agent' '^1 ' '^2 '
step 'kubectl rollout history daemonset agent --revision=2' 'Image:.*agent:2'
step 'kubectl rollout undo daemonset agent' 'rolled back'
step 'kubectl rollout status daemonset agent --timeout=$WAIT' 'successfully rolled out'
step 'kubectl get pods -l app=agent -o jsonpath="{.items[*].spec.containers[0].image}"' '^agent:1 agent:1 agent:1$'
step 'kubectl rollout history daemonset agent' '!^1 ' '^2 ' '^3 '
step 'kubectl rollout restart daemonset agent' 'restarted'
step 'kubectl rollout status daemonset agent --timeout=$WAIT' 'successfully rolled out'
step 'kubectl drain node-0 --ignore-daemonsets --delete-emptydir-data --force --timeout=$WAIT' 'ignoring DaemonSet-managed Pods'
step 'kubectl get ds agent' '^agent +3 +3 +3 '
step 'kubectl uncordon node-0' 'uncordoned'

step 'kubectl delete statefulset db --timeout=$WAIT' 'deleted'
step 'kubectl delete daemonset agent --timeout=$WAIT' 'deleted'
step 'kubectl wait --for=delete pod -l app --timeout=$WAIT; kubectl get pods' 'No resources found'
step 'kubectl wait --for=delete controllerrevision --all --timeout=$WAIT; kubectl get controllerrevisions' 'No resources found'
step 'kubectl get pvc -o name' 'data-db-0' 'data-db-1'
step 'kubectl delete pvc --all --timeout=$WAIT' 'deleted'
