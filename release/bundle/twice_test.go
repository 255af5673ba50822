package bundle_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/helmdeck/repos/release/bundle"
	"github.com/helmdeck/repos/release/image"
	"github.com/helmdeck/repos/release/sbom"
	"github.com/helmdeck/repos/tests/environ"
)

var (
	full = flag.Bool("full", false, "make two whole releases from nothing, each with a Go cache of its own")
	keep = flag.String("keep", "", "the `directory` in whose build/release one of them stays, for the tests that install it")
)

const projectDir = "../.."

// TestReleaseTwice makes two releases of the same files in two directories, at two times and with two umasks, and compares
// them byte by byte. Without -full it takes the root filesystems that make rootfs has made, shares Go's cache, and makes
// the command for Linux on amd64 alone. The control of the digests is in package image, that of the sums in TestVerify.
func TestReleaseTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for _, variable := range environ.Proxies() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	for _, arch := range bundle.Architectures {
		if out, err := exec.Command("make", "-C", projectDir, "rootfs", "ARCH="+arch, "FRESH=1").CombinedOutput(); err != nil {
			t.Fatalf("make rootfs: %v: %s", err, out)
		}
	}
	roots := []string{copyProject(t), copyProject(t)}
	var lists []string
	for i, umask := range []int{0o022, 0o077} {
		o := bundle.Options{Root: roots[i], Version: "1.2.3", Systems: bundle.Systems[:1], Log: io.Discard}
		if *full {
			o.Systems, o.Debs, o.Log = bundle.Systems, true, os.Stdout
			t.Setenv("GOCACHE", filepath.Join(t.TempDir(), "cache"))
		}
		before := syscall.Umask(umask)
		err := bundle.Make(t.Context(), o)
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		if err := bundle.Verify(o.Path()); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			checkBills(t, o)
		}
		list, err := os.ReadFile(filepath.Join(o.Path(), "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		lists = append(lists, string(list))
	}
	if lists[0] != lists[1] {
		t.Errorf("two releases of the same files differ:\n%s\n%s", lists[0], lists[1])
	}
	if *keep != "" && !t.Failed() {
		from, to := bundle.Options{Root: roots[0], Version: "1.2.3"}, bundle.Options{Root: *keep, Version: "1.2.3"}
		if err := os.CopyFS(to.Path(), os.DirFS(from.Path())); err != nil {
			t.Error(err)
		}
	}
}

// copyProject copies the files of the project into a new repository, and what make needs and make rootfs have made.
func copyProject(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "release-twice-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	script := `git ls-files -z --cached --others --exclude-standard | xargs -0 -r ls -d 2>/dev/null | tar -c -T - | tar -x -C "$1"
mkdir "$1/build"; ln -s "$PWD/build/tools" "$1/build/tools"`
	if !*full {
		script += `; cp -p build/rootfs-* "$1/build"`
	}
	cmd := exec.Command("bash", "-euc", script, "copy", dir)
	cmd.Dir = projectDir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copying the project: %v: %s", err, out)
	}
	commit(t, dir)
	return dir
}

// checkBills compares the bills of materials with what they describe, and as a control with one file more.
func checkBills(t *testing.T, o bundle.Options) {
	t.Helper()
	check := func(name string, files []image.File, packages ...string) {
		document := readBill(t, filepath.Join(o.Path(), name))
		for _, want := range packages {
			if !slices.ContainsFunc(document.Packages, func(p *spdx.Package) bool { return p.PackageName == want }) {
				t.Errorf("%s lacks the package %s", name, want)
			}
		}
		if err := sbom.Check(document, files); err != nil || len(files) == 0 {
			t.Errorf("%s: %d files: %v", name, len(files), err)
		}
		if sbom.Check(document, append(files, image.File{Path: "more"})) == nil {
			t.Errorf("%s: no error with one file more", name)
		}
	}
	for _, arch := range bundle.Architectures {
		plugin, err := image.Load(filepath.Join(o.Path(), "plugin-"+arch))
		if err != nil {
			t.Fatal(err)
		}
		files, err := image.Files(plugin)
		if err != nil {
			t.Fatal(err)
		}
		check("plugin-"+arch+".spdx.json", files, "git", "libc6", "ca-certificates", "go.etcd.io/bbolt", "stdlib")
		container, err := image.ReadArchive(filepath.Join(o.Path(), "helmdeck-repos-csi_"+o.Version+"_"+arch+".tar"))
		if err != nil {
			t.Fatal(err)
		}
		if files, err = image.Files(container); err != nil {
			t.Fatal(err)
		}
		check("helmdeck-repos-csi_"+arch+".spdx.json", files, "git", "go.etcd.io/bbolt", "github.com/docker/cli", "github.com/container-storage-interface/spec")
	}
	check("docker-repos.spdx.json", archived(t, o.Path()), "github.com/docker/cli", "stdlib", "github.com/helmdeck/repos")
	if runtime.GOARCH == "amd64" {
		runCommand(t, o)
	}
}

func readBill(t *testing.T, name string) *spdx.Document {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	document, err := json.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	return document
}

// archived returns the files in the archives of a release, below the names of the archives.
func archived(t *testing.T, dir string) (files []image.File) {
	t.Helper()
	tars, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	add := func(archive, name string, r io.Reader) {
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, image.File{Path: filepath.Base(archive) + "/" + name, Data: data})
	}
	for _, name := range tars {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		zipped, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(zipped)
		for {
			h, err := archive.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			add(name, h.Name, archive)
		}
	}
	zips, err := filepath.Glob(filepath.Join(dir, "*.zip"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range zips {
		archive, err := zip.OpenReader(name)
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		for _, f := range archive.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(name, f.Name, r)
			r.Close()
		}
	}
	return files
}

// runCommand unpacks the command for this machine and asks for its version.
func runCommand(t *testing.T, o bundle.Options) {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(o.Path(), "docker-repos_"+o.Version+"_linux_amd64.tar.gz")
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "docker-repos"), "docker-cli-plugin-metadata").Output()
	if want := `"Version":"` + o.Version + `"`; err != nil || !strings.Contains(strings.ReplaceAll(string(out), ": ", ":"), want) {
		t.Errorf("got %s, %v; want %s in it", out, err, want)
	}
}
