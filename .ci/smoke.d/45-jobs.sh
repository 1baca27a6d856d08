# Jobs and CronJobs: completed, failed, suspended, started by hand from a CronJob, deleted.
namespace jobs

step 'kubectl create job hello --image=busybox -- sh -c "echo done"' '^job.batch/hello created$'
step 'kubectl wait --for=condition=complete job/hello --timeout=$WAIT' 'job.batch/hello condition met'
step 'kubectl get job hello' '^NAME +STATUS +COMPLETIONS +DURATION +AGE' '^hello +Complete +1/1 '
step 'kubectl logs job/hello' '^done$'
step 'kubectl get pods -l job-name=hello' ' 0/1 +Completed +0 '
eventually 'kubectl describe job hello' '^Pods Statuses: +0 Active .*/ 1 Succeeded / 0 Failed' 'SuccessfulCreate' 'Job completed'

step 'kubectl create -f - <<Y
---
apiVersion: batch/v1
kind: Job
metadata: {name: many}
spec:
  completions: 4
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox, command: [sh, -c, "echo index \$JOB_COMPLETION_INDEX"]}]
Y' 'created'
step 'kubectl wait --for=condition=complete job/many --timeout=$WAIT' 'condition met'
step 'kubectl get job many -o jsonpath="{.status.completedIndexes}"' '^0-3$'
step 'kubectl logs -l batch.kubernetes.io/job-completion-index=2' '^index 2$'

step 'kubectl create job broken --image=busybox -- false && kubectl patch job broken --type=json \
    -p "[{\"op\":\"replace\",\"path\":\"/spec/backoffLimit\",\"value\":0}]"' 'created' 'patched'
step 'kubectl wait --for=condition=failed job/broken --timeout=$WAIT' 'condition met'
step 'kubectl get job broken -o jsonpath="{.status.conditions[?(@.type==\"Failed\")].reason}"' '^BackoffLimitExceeded$'
step 'kubectl get job broken' '^broken +Failed +0/1 '

step 'kubectl create cronjob tick --image=busybox --schedule="0 0 1 1 *" -- sh -c "echo tick"' 'cronjob.batch/tick created'
step 'kubectl get cronjob tick' '^NAME +SCHEDULE +TIMEZONE +SUSPEND +ACTIVE +LAST SCHEDULE +AGE' '^tick +0 0 1 1 \* +<none> +False +0 '
step 'kubectl create job now --from=cronjob/tick' '^job.batch/now created$'
step 'kubectl wait --for=condition=complete job/now --timeout=$WAIT' 'condition met'
step 'kubectl logs job/now' '^tick$'
step 'kubectl get job now -o jsonpath="{.metadata.ownerReferences[0].kind}"' '^CronJob$'
step 'kubectl delete cronjob tick' 'deleted'
step 'kubectl wait --for=delete job/now --timeout=$WAIT; kubectl get pods -l job-name=now' 'No resources found'

step 'kubectl create cronjob often --image=busybox --schedule="@every 2s" -- true' 'created'
step 'kubectl wait --for=jsonpath="{.status.lastSuccessfulTime}" cronjob/often --timeout=$WAIT' 'condition met'
eventually 'kubectl describe cronjob often' '^Schedule: +@every 2s' 'SuccessfulCreate' 'SawCompletedJob'
step 'kubectl patch cronjob often -p "{\"spec\":{\"suspend\":true}}"' 'patched'
step 'kubectl delete cronjob often' 'deleted'

step 'kubectl create job waits --image=busybox --dry-run=client -o yaml -- sh -c "trap exit TERM; sleep 100 & wait" | kubectl create -f -' 'created'
step 'kubectl wait --for=jsonpath="{.status.ready}"=1 job/waits --timeout=$WAIT' 'condition met'
step 'kubectl patch job waits -p "{\"spec\":{\"suspend\":true}}"' 'patched'
step 'kubectl wait --for=condition=suspended job/waits --timeout=$WAIT' 'condition met'
step 'kubectl wait --for=delete pod -l job-name=waits --timeout=$WAIT; kubectl get pods -l job-name=waits' 'No resources found'
step 'kubectl get job waits' '^waits +Suspended +0/1 '
step 'kubectl patch job waits -p "{\"spec\":{\"suspend\":false,\"ttlSecondsAfterFinished\":1,\"activeDeadlineSeconds\":3}}"' 'patched'
step 'kubectl wait --for=delete job/waits --timeout=$WAIT' 'deleted|condition met|^$'
