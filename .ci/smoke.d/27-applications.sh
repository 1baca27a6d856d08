# Typical applications (reduced and written for this test): all become ready, are rolled out and scaled, and are deleted without
# remains.
namespace applications

step 'kubectl apply -f "$MANIFESTS/../applications"' '^statefulset.apps/postgres created$' '^daemonset.apps/fluent-bit created$' '^cronjob.batch/report created$'
for workload in deployment/redis-leader deployment/redis-follower deployment/wordpress deployment/wordpress-mysql deployment/ingress \
    statefulset/postgres statefulset/kafka statefulset/elasticsearch statefulset/prometheus daemonset/node-exporter daemonset/fluent-bit; do
    step "kubectl rollout status $workload --timeout=$WAIT" 'rolled out|roll out complete|rolling update complete'
done
step 'kubectl wait --for=condition=complete job/shards job/migrate job/ingress-certificate --timeout=$WAIT' 'job.batch/shards condition met'
step 'kubectl wait --for=jsonpath={.status.readyReplicas}=2 rc/guestbook-backend --timeout=$WAIT' 'condition met'
step 'kubectl wait --for=jsonpath={.status.readyReplicas}=3 rs/guestbook-frontend --timeout=$WAIT' 'condition met'
step 'kubectl wait --for=jsonpath={.status.phase}=Bound pvc --all --timeout=$WAIT && kubectl get pvc -o name | wc -l' '^11$'
step 'kubectl get pods --field-selector=status.phase!=Running,status.phase!=Succeeded' 'No resources found'
step 'kubectl get endpointslices -l kubernetes.io/service-name=postgres-members -o jsonpath="{.items[0].endpoints[*].hostname}"; echo' '^postgres-[0-2] postgres-[0-2] postgres-[0-2]$'

step 'kubectl rollout restart deployment,statefulset,daemonset' 'statefulset.apps/kafka restarted' 'daemonset.apps/node-exporter restarted'
step 'kubectl rollout status statefulset/postgres --timeout=$WAIT' 'complete'
step 'kubectl rollout status daemonset/fluent-bit --timeout=$WAIT' 'rolled out'
step 'kubectl scale statefulset/kafka --replicas=1 && kubectl wait --for=delete pod/kafka-2 --timeout=$WAIT' 'scaled'
step 'kubectl scale rc/guestbook-backend --replicas=4 && kubectl wait --for=jsonpath={.status.readyReplicas}=4 rc/guestbook-backend --timeout=$WAIT' 'condition met'

step 'kubectl delete -f "$MANIFESTS/../applications" --timeout=$WAIT' 'statefulset.apps "postgres" deleted'
step 'kubectl wait --for=delete pods,pvc,replicasets,controllerrevisions,jobs,endpointslices --all --timeout=$WAIT; kubectl get pods,pvc,rs,controllerrevisions,jobs,endpointslices' 'No resources found'
step 'kstore-server run --manifest "$MANIFESTS/../applications" --wait=available -- kubectl get statefulsets' '^postgres +3/3 '
