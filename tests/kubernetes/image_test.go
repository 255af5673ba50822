package kubernetes

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// writeBox writes an image of busybox, as `docker save` does.
func writeBox(path string) error {
	layer, err := boxLayer()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "config": object{"Cmd": idle, "Env": []string{"PATH=/bin"}},
		"rootfs": object{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]object{{"Config": "config.json", "RepoTags": []string{boxImage}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := writeTar(file, map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": manifest}, nil); err != nil {
		return err
	}
	return file.Close()
}

// boxLayer returns a root filesystem with a static busybox.
func boxLayer() ([]byte, error) {
	program, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	code, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	list, err := exec.Command(program, "--list").Output()
	if err != nil {
		return nil, err
	}
	links := make(map[string]string)
	for _, name := range strings.Fields(string(list)) {
		if name != "busybox" {
			links["bin/"+name] = "busybox"
		}
	}
	var out bytes.Buffer
	err = writeTar(&out, map[string][]byte{"bin/busybox": code}, links)
	return out.Bytes(), err
}

// writeTar writes files, which are executable, and symbolic links.
func writeTar(w io.Writer, files map[string][]byte, links map[string]string) error {
	archive := tar.NewWriter(w)
	for name, data := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	for name, target := range links {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}); err != nil {
			return err
		}
	}
	return archive.Close()
}
