package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/helmdeck/repos/tests/wait"
)

// pod is what the tests read of a pod.
type pod struct {
	Metadata struct{ Name, Namespace, UID, DeletionTimestamp string }
	Spec     struct{ NodeName string }
	Status   struct {
		Phase, PodIP      string
		ContainerStatuses []struct {
			ContainerID  string
			RestartCount int
			Ready        bool
		}
	}
}

// boxImage is the image of the tests' pods: busybox, and nothing else.
const boxImage = "localhost/box:1"

// idle is the command of a container that waits for SIGTERM.
var idle = []string{"/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000000 & wait $!; done"}

// newPod returns a pod that mounts a volume at /w, if there is one, and waits. It meets the restricted profile of Pod Security.
// change, if any, changes its spec.
func newPod(name string, volume object, change ...func(spec object)) object {
	container := object{
		"name": "c", "image": boxImage, "imagePullPolicy": "Never", "command": idle,
		"securityContext": object{
			"allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000,
			"capabilities": object{"drop": []string{"ALL"}}, "seccompProfile": object{"type": "RuntimeDefault"},
		},
	}
	spec := object{
		"nodeName": nodeName, "automountServiceAccountToken": false, "enableServiceLinks": false,
		"terminationGracePeriodSeconds": 5, "containers": []object{container},
	}
	if volume != nil {
		container["volumeMounts"] = []object{{"name": "w", "mountPath": "/w"}}
		with := object{"name": "w"}
		for key, value := range volume {
			with[key] = value
		}
		spec["volumes"] = []object{with}
	}
	for _, f := range change {
		f(spec)
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name}, "spec": spec}
}

// container returns the first container of a spec, for changes.
func container(spec object) object { return spec["containers"].([]object)[0] }

// emptyDir is a volume that the driver has no part in.
func emptyDir() object { return object{"emptyDir": object{}} }

// inline is an ephemeral volume of the driver.
func inline(attributes map[string]string) object {
	return object{"csi": object{"driver": driverName, "volumeAttributes": attributes}}
}

// start creates a pod and waits until it runs. It returns the time from the request on.
func (c *cluster) startPod(namespace string, p object) (running pod, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Most(c))
	defer cancel()
	name := p["metadata"].(object)["name"].(string)
	var began time.Time
	create := func() error {
		began = time.Now()
		return c.api.post(ctx, pods(namespace), p)
	}
	err = c.api.watch(ctx, namespace, name, create, func(_ string, p pod) bool {
		running, took = p, time.Since(began)
		return p.Status.Phase == "Running" || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
	})
	if err == nil && running.Status.Phase == "Failed" {
		err = errors.New("it failed")
	}
	if err != nil {
		err = fmt.Errorf("pod %s: %w\n%s", name, err, c.events(namespace, name))
	}
	return running, took, err
}

// pod returns the current state of a pod.
func (c *cluster) pod(namespace, name string) (p pod, err error) {
	return p, c.api.get(context.Background(), pods(namespace)+"/"+name, &p)
}

// deletePod deletes a pod and waits until it is gone, which it is when kubelet has ended it and unpublished its volumes.
func (c *cluster) deletePod(namespace, name string) error { return c.endPod(namespace, name, nil) }

// forceDelete removes a pod's object at once. kubelet ends the pod later.
func (c *cluster) forceDelete(namespace, name string) error {
	return c.endPod(namespace, name, object{"gracePeriodSeconds": 0})
}

// endPod deletes a pod with options and waits until its object is gone.
func (c *cluster) endPod(namespace, name string, options object) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Most(c))
	defer cancel()
	var body any
	if options != nil {
		body = options
	}
	remove := func() error {
		return c.api.call(ctx, http.MethodDelete, pods(namespace)+"/"+name, body, nil)
	}
	err := c.api.watch(ctx, namespace, name, remove, func(event string, _ pod) bool { return event == "DELETED" })
	if err != nil {
		return fmt.Errorf("delete pod %s: %w\n%s", name, err, c.events(namespace, name))
	}
	return nil
}

// sh runs a script in a pod's container and returns its output.
func (c *cluster) sh(namespace, name, script string) (string, error) {
	return c.kubectl("exec", "--namespace", namespace, name, "--", "sh", "-c", script)
}

// events returns the messages of the events of a pod.
func (c *cluster) events(namespace, name string) string {
	var list struct {
		Items []struct{ Type, Reason, Message string }
	}
	err := c.api.get(context.Background(), "/api/v1/namespaces/"+namespace+"/events?fieldSelector=involvedObject.name%3D"+name, &list)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, e := range list.Items {
		lines = append(lines, e.Type+" "+e.Reason+": "+e.Message)
	}
	return strings.Join(lines, "\n")
}
