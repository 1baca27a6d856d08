#!/bin/sh
# The operator of the worked examples: an hourly CronJob for each Backup, and a ConfigMap as a record for each Job of it that has finished.
# kubectl ends with its watch, as watches do after half an hour to an hour of the cluster's time; then it starts again.
records() {
    while :; do
        kubectl get jobs --selector backup --watch -o 'jsonpath={.metadata.labels.backup} {.metadata.name} {.status.succeeded}{"\n"}' |
            while read -r backup job succeeded; do
                [ "$succeeded" = 1 ] || continue
                kubectl get configmap "$job" >/dev/null 2>&1 || kubectl create -f - <<EOT
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "$job", "labels": {"backup": "$backup"}}}
EOT
            done
    done
}

records &
while :; do
    kubectl get backups --watch -o 'jsonpath={.metadata.name}{"\n"}' | while read -r backup; do
        kubectl apply -f - <<EOT
apiVersion: batch/v1
kind: CronJob
metadata: {name: $backup}
spec:
  schedule: 0 * * * *
  successfulJobsHistoryLimit: 100
  jobTemplate:
    metadata: {labels: {backup: $backup}}
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: backup, image: example.com/backup, command: ["true"]}]}}}
EOT
    done
done
