package kubernetes

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandBlock matches a block of commands of a page.
var commandBlock = regexp.MustCompile("(?m)^```sh\n((?:.*\n)*?)```$")

// notOnPage says why a block of the page is not run, by its first line.
var notOnPage = map[string]string{
	"kubectl create namespace helmdeck-repos": "there is no helm on the machine: package charts renders the chart",
	"kubectl delete -f kubernetes.yaml               # or: helm uninstall --namespace helmdeck-repos repos; kubectl delete -k repos-csi": "undeploy does it, as the last scenario",
}

// pageCommands runs the commands of the page for users of Kubernetes as they are written, in its order. The files that they
// name have the changes that this machine needs.
func pageCommands(t *testing.T, w *world) {
	text, err := os.ReadFile("../../docs/how-to/kubernetes.md")
	must(t, err)
	dir := w.path("page")
	w.pageFiles(t, dir)
	defer func() {
		for _, rest := range [][]string{{"cronjob/prepare", "--cascade=foreground"}, {"pod/hello", "--grace-period=1"}} {
			if _, err := w.kubectl(append([]string{"delete", "--ignore-not-found"}, rest...)...); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.operate("credentials", "rm", "git-host"); err != nil {
			t.Error(err)
		}
		w.awaitNothing(t)
	}()
	skipped := make(map[string]bool)
	for _, block := range commandBlock.FindAllStringSubmatch(string(text), -1) {
		first, _, _ := strings.Cut(block[1], "\n")
		if notOnPage[first] != "" {
			skipped[first] = true
			continue
		}
		if strings.Contains(first, "checkpoint.sh") { // the page has deleted the pod
			w.inPage(t, dir, "kubectl apply -f examples/kubernetes/pod.yaml && kubectl wait --for=condition=Ready --timeout=60s pod/hello")
		}
		w.inPage(t, dir, block[1])
		if strings.Contains(block[1], "prepare-now.sh") {
			jobs, err := w.kubectl("get", "jobs", "--output", "jsonpath={.items[*].metadata.name}")
			must(t, err)
			for _, job := range strings.Fields(jobs) {
				w.awaitJob(t, job, "Complete")
			}
		}
	}
	for first := range notOnPage {
		if !skipped[first] {
			t.Errorf("the page has no block that begins with %q", first)
		}
	}
	if names, err := w.operate("credentials", "ls", "--format", "{{.Name}}"); err != nil || !slices.Contains(strings.Fields(names), "git-host") {
		t.Errorf("the driver has the credentials %q, %v; want git-host", names, err)
	}
}

// inPage runs commands in the directory of the page's files.
func (w *world) inPage(t *testing.T, dir, commands string) {
	t.Helper()
	out, err := w.run("sh", "-euc", "cd "+dir+"\n"+commands)
	t.Logf("$ %s\n%s", commands, out)
	must(t, err)
}

// pageFiles writes the files that the page's commands name, and a program that prints what the page's git host would answer.
func (w *world) pageFiles(t *testing.T, dir string) {
	t.Helper()
	examples := filepath.Join(dir, "examples/kubernetes")
	must(t, os.MkdirAll(examples, 0o755))
	names, err := os.ReadDir("../../examples/kubernetes")
	must(t, err)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("../../examples/kubernetes", name.Name()))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(examples, name.Name()), []byte(adapt(string(data),
			npm, "touch package-lock.json; mkdir -p node_modules", "https://github.com/my-org/app", urlOf(appRepo))), 0o644))
	}
	objects := objects(t)
	data, err := os.ReadFile(objects[1])
	if objects[0] == "-k" {
		var text string
		text, err = w.kubectl("kustomize", objects[1])
		data = []byte(text)
	}
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "kubernetes.yaml"), data, 0o644))
	const keyscan = "#!/bin/sh\necho \"$1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN0JGsNdOWBoHvvGm2JHdQOh9+I0h9r2G2BLYLbwVpnJ\"\n"
	must(t, os.WriteFile(w.path("bin", "ssh-keyscan"), []byte(keyscan), 0o755))
}
