#!/bin/sh
# Runs what prepare.yaml runs, now and once on each node: a Job of one pod for each. It needs kubectl, and the rights to
# list nodes, to read the CronJob and to create Jobs.
set -eu
run=prepare-$(date +%s)
n=0
for node in $(kubectl get nodes --field-selector spec.unschedulable=false --output 'jsonpath={.items[*].metadata.labels.kubernetes\.io/hostname}'); do
	n=$((n + 1))
	kubectl create job "$run-$n" --from cronjob/prepare --dry-run=client --output json |
		kubectl patch --local --filename - --type merge --output json --patch '{"spec": {"completions": 1, "parallelism": 1,
			"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "'"$node"'"}}}}}' |
		kubectl create --filename -
done
