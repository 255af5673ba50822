#!/bin/sh
# Makes a checkpoint of the checkout of a running pod, and prints its ID and the node that it is on. It needs kubectl, and
# the rights to read the pod, and to list pods of the driver and execute commands in them.
# usage: checkpoint.sh NAMESPACE POD [NAME]
set -eu
namespace=$1 pod=$2
shift 2
node=$(kubectl get pod --namespace "$namespace" "$pod" --output 'jsonpath={.spec.nodeName}')
driver=$(kubectl get pods --namespace helmdeck-repos --selector app.kubernetes.io/name=helmdeck-repos \
	--field-selector "spec.nodeName=$node" --output 'jsonpath={.items[0].metadata.name}')
id=$(kubectl exec --namespace helmdeck-repos "$driver" -- docker-repos checkpoint --no-pause "$namespace/$pod" "$@")
echo "$id $node"
