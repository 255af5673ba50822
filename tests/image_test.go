package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// image is the image of the tests' containers: a shell with the usual tools, and git.
const image = "test"

// imageTar makes the image's content once: the plugin's own root filesystem, which has git, and
// busybox for all other tools.
var imageTar = sync.OnceValues(func() (string, error) {
	root := filepath.Join(scratch, "image")
	script := `
		set -eu
		cp -a "$1/rootfs" "$2"
		cd "$2"
		chmod 755 .
		mkdir -p bin tmp root
		chmod 1777 tmp
		cp "$(command -v busybox)" bin/busybox
		for applet in $(./bin/busybox --list); do
			[ -e "bin/$applet" ] || [ -e "usr/bin/$applet" ] || ln -s busybox "bin/$applet"
		done
		tar -c . >"$2.tar"
		rm -rf "$2"`
	out, err := exec.Command("sh", "-c", script, "sh", pluginDir(), root).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make the test's image: %w: %s", err, out)
	}
	return root + ".tar", nil
})

// importImage imports the image into the engine, without a registry.
func (e *engine) importImage() error {
	if _, err := os.Stat(pluginDir()); err != nil {
		return fmt.Errorf("no plugin: run make plugin first: %w", err)
	}
	tar, err := imageTar()
	if err != nil {
		return err
	}
	_, err = e.Try("import",
		"--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp",
		"--change", "ENV GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com",
		tar, image)
	return err
}

// goMounts returns the docker flags that mount the machine's Go in a container, at the same path. A
// distribution may have spread it over several directories with links between them.
func goMounts() ([]string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	root := strings.TrimSpace(string(out))
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	mounts := []string{"--env", "GOROOT=" + root, "--volume", root + ":" + root + ":ro"}
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 {
			continue
		}
		target, err := filepath.EvalSymlinks(filepath.Join(root, entry.Name()))
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(target); err == nil && info.IsDir() {
			mounts = append(mounts, "--volume", target+":"+target+":ro")
		}
	}
	return mounts, nil
}
