package repos_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// clusterCommands are the commands of kubectl and helm that pages may have, with their flags. Neither program need be
// installed.
var clusterCommands = map[string][]string{
	"kubectl apply": {"-f", "-k"}, "kubectl create": nil, "kubectl delete": {"-f", "-k"}, "kubectl describe": nil, "kubectl exec": {"--stdin", "-i", "-it"},
	"kubectl get": {"--output", "--selector"}, "kubectl label": nil, "kubectl logs": nil, "kubectl rollout": nil, "kubectl wait": {"--for"},
	"helm install": {"--set", "--set-string"}, "helm rollback": nil, "helm uninstall": nil, "helm upgrade": {"--set", "--set-string"},
}

var (
	clusterCommand = regexp.MustCompile(`(?:^|[|;&(])\s*((?:kubectl|helm) +[a-z]+)([^|;&()\n#]*)`)
	anyFlag        = regexp.MustCompile(`(?:^|\s)(--?[a-z][a-z-]*)`)
	namespaceFlag  = regexp.MustCompile(`--namespace[ =](\S+)`)
	selectorFlag   = regexp.MustCompile(`--selector[ =]([^\s=]+)=(\S+)`)
	daemonSet      = regexp.MustCompile(`\bdaemonset/([\w-]+)`)
	chartSetting   = regexp.MustCompile(`\bsettings\.([A-Z_]+)=`)
)

// checkKubernetes checks the commands of kubectl and helm: their verbs and flags, and what they name of the driver's objects.
func checkKubernetes(k known, p page) (problems []string) {
	objects := driverObjects()
	for _, command := range p.commands() {
		for _, m := range clusterCommand.FindAllStringSubmatch(command, -1) {
			problem := func(format string, args ...any) {
				problems = append(problems, fmt.Sprintf("`%s`: %s", strings.TrimSpace(m[0]), fmt.Sprintf(format, args...)))
			}
			flags, known := clusterCommands[strings.Join(strings.Fields(m[1]), " ")]
			if !known {
				problem("no such command")
				continue
			}
			args, _, _ := strings.Cut(m[2], " -- ") // what follows is a command of the container
			for _, f := range anyFlag.FindAllStringSubmatch(args, -1) {
				if f[1] != "--namespace" && !slices.Contains(flags, f[1]) {
					problem("no flag %s", f[1])
				}
			}
			for _, n := range namespaceFlag.FindAllStringSubmatch(args, -1) {
				if !strings.Contains(objects, "\nnamespace: "+n[1]+"\n") {
					problem("the driver is not in the namespace %s", n[1])
				}
			}
			for _, l := range selectorFlag.FindAllStringSubmatch(args, -1) {
				if !strings.Contains(objects, l[1]+": "+l[2]) {
					problem("nothing has the label %s=%s", l[1], l[2])
				}
			}
			for _, d := range daemonSet.FindAllStringSubmatch(args, -1) {
				if !strings.Contains(objects, "\nkind: DaemonSet\nmetadata:\n  name: "+d[1]+"\n") {
					problem("there is no DaemonSet %s", d[1])
				}
			}
			for _, s := range chartSetting.FindAllStringSubmatch(args, -1) {
				if !k.settings[s[1]] {
					problem("no setting has the name %s", s[1])
				}
			}
		}
	}
	return problems
}

// driverObjects returns the text of the objects of deploy/kubernetes.
func driverObjects() string {
	names, err := filepath.Glob("deploy/kubernetes/*.yaml")
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("no objects in deploy/kubernetes: %v", err))
	}
	var all strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			panic(err)
		}
		all.WriteString("\n" + string(data))
	}
	return all.String()
}
