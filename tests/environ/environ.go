// Package environ removes variables from the environment of a test's process that would change what git, Docker and
// clients of HTTP do: GIT_*, DOCKER_*, and those that name a proxy. It does so when it is imported, before any code of the
// importing package runs, so that neither a test nor what it starts inherits them. A test can set them for itself.
//
// The packages dockerd, daemon and testdir import it, and so do all tests that use one of them. Another package whose tests
// run git or docker imports it in one of its test files.
package environ

import (
	"os"
	"slices"
	"strings"
)

// proxies has the variables of proxies that init removed, as NAME=value.
var proxies []string

func init() {
	// The test's program also stands for the plugin's, which git runs, with variables that are meant for it. And what is
	// not a test, such as a benchmark, may import a package that imports this.
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "-test.") {
		return
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		proxy := isProxy(name)
		if proxy {
			proxies = append(proxies, variable)
		}
		if proxy || strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "DOCKER_") {
			_ = os.Unsetenv(name) // the name is valid, because it comes from the environment
		}
	}
}

func isProxy(name string) bool {
	return slices.Contains([]string{"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"}, strings.ToLower(name))
}

// Proxies returns the variables of proxies that the process was started with, as NAME=value.
func Proxies() []string { return slices.Clone(proxies) }

// Downloading returns the environment for a command that downloads: the process's own and Proxies.
func Downloading() []string { return append(os.Environ(), proxies...) }
