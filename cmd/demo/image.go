package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
)

const (
	imageName  = "helmdeck-demo"
	imageLabel = "helmdeck.demo.content"                   // the hash of the files in the image
	rootfsTar  = "build/rootfs-" + runtime.GOARCH + ".tar" // make rootfs makes it
)

// image is the image of the demo's containers.
type image struct {
	name  string
	flags []string // flags of docker run that override the image's defaults
	git   bool     // the image has git
}

// prepareImage makes the demo's own image if name is empty, and otherwise pulls the named one if
// the engine does not have it.
func (d *demo) prepareImage(ctx context.Context, name string) error {
	if name == "" {
		say("Containers are made of the image %s: a shell, git, and the usual small tools. It needs no registry.", imageName)
		d.image = image{name: imageName, git: true}
		return d.makeImage(ctx)
	}
	d.image = image{name: name}
	const ask = "{{.Config.User}},{{len .Config.Entrypoint}}"
	config, err := d.quiet(ctx, "image", "inspect", "--format", ask, name)
	if err != nil {
		if _, err := d.show(ctx, "pull", "--quiet", name); err != nil {
			return err
		}
		if config, err = d.quiet(ctx, "image", "inspect", "--format", ask, name); err != nil {
			return err
		}
	}
	user, entrypoint, _ := strings.Cut(config, ",")
	if entrypoint != "0" {
		d.image.flags = append(d.image.flags, "--entrypoint", "")
	}
	if user != "" {
		d.image.flags = append(d.image.flags, "--user", "0") // the owner of the files without the options uid and gid
	}
	git, err := d.quiet(ctx, d.runArgs("", "command -v git || echo none")...)
	if err != nil {
		return fmt.Errorf("IMAGE=%s: cannot run a shell in it: %w", name, err)
	}
	d.image.git = git != "none"
	say("Containers are made of the image %s.", name)
	if !d.image.git {
		say("It has no git, so nothing will be committed below; the checkouts are the same.")
	}
	return nil
}

// makeImage imports an image of the plugin's root filesystem, which has git, and busybox, unless an
// image with the same files exists.
func (d *demo) makeImage(ctx context.Context) error {
	rootfs, err := os.ReadFile(rootfsTar)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: run make demo, which makes the file", err)
	}
	if err != nil {
		return err
	}
	box, err := findBusybox(ctx)
	if err != nil {
		return err
	}
	hash := sha256.New()
	hash.Write(rootfs)
	hash.Write(box.program)
	content := fmt.Sprintf("%x", hash.Sum(nil)[:8])

	old, err := d.quiet(ctx, "image", "ls", "--no-trunc", "--quiet", imageName)
	if err != nil {
		return err
	}
	if old != "" {
		has, err := d.quiet(ctx, "image", "inspect", "--format", `{{index .Config.Labels "`+imageLabel+`"}}`, imageName)
		if err != nil || has == content {
			return err
		}
		if _, err := d.quiet(ctx, "image", "rm", imageName); err != nil {
			return err
		}
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(box.addTo(w, bytes.NewReader(rootfs))) }()
	defer r.Close()
	d.print("import", "-", imageName)
	_, err = d.feed(ctx, r, "import", "--change", "LABEL "+imageLabel+"="+content, "-", imageName)
	return err
}

// busybox is a static program that provides many tools. The name by which it is called selects the
// tool.
type busybox struct {
	program []byte
	tools   []string
}

func findBusybox(ctx context.Context) (busybox, error) {
	file, err := exec.LookPath("busybox")
	if err != nil {
		return busybox{}, fmt.Errorf("%w: make needs installs it", err)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return busybox{}, err
	}
	list, err := exec.CommandContext(ctx, file, "--list").Output()
	if err != nil {
		return busybox{}, fmt.Errorf("busybox --list: %w", err)
	}
	return busybox{program, strings.Fields(string(list))}, nil
}

// addTo copies a root filesystem from one tar archive to another and adds the missing tools.
func (b busybox) addTo(w io.Writer, rootfs io.Reader) error {
	out := tar.NewWriter(w)
	present := map[string]bool{"busybox": true}
	for in := tar.NewReader(rootfs); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", rootfsTar, err)
		}
		if dir, name := path.Split(path.Clean(h.Name)); dir == "usr/bin/" || dir == "usr/sbin/" {
			present[name] = true
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	if err := out.WriteHeader(&tar.Header{Name: "usr/bin/busybox", Mode: 0o755, Size: int64(len(b.program))}); err != nil {
		return err
	}
	if _, err := out.Write(b.program); err != nil {
		return err
	}
	for _, tool := range b.tools {
		if present[tool] {
			continue
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/bin/" + tool, Linkname: "busybox", Mode: 0o777}); err != nil {
			return err
		}
	}
	return out.Close()
}
