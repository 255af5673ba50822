package rootfs

import (
	"archive/tar"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/environ"
	"github.com/helmdeck/repos/tests/testdir"
)

var architectures = []string{"amd64", "arm64"}

// build makes the root filesystem of an architecture in a new directory, and returns its archive
// and the list of its files.
func build(t *testing.T, arch string, env ...string) (archive, files []byte) {
	t.Helper()
	out := testdir.New(t, "rootfs-"+arch)
	cmd := exec.Command("./build")
	cmd.Env = append(environ.Downloading(), "ARCH="+arch, "OUT="+out, "FORCE=1", "STRICT=", "LOCK=", "SOURCE_DATE_EPOCH=")
	cmd.Env = append(cmd.Env, env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rootfs/build of %s: %v: %s", arch, err, said)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(out, "rootfs-"+arch+name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	return read(".tar"), read(".files")
}

// TestBuildsAreEqual builds the root filesystem of each architecture twice, and checks that all
// bytes are equal, that the list names exactly the files of the archive, and that each program has
// its libraries and each library a program. As a control, another time stamp makes another archive.
func TestBuildsAreEqual(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	var amd64 [sha256.Size]byte
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			archive, files := build(t, arch)
			again, filesAgain := build(t, arch, "TZ=Asia/Tokyo", "LANG=de_DE.UTF-8", "LC_ALL=")
			if sha256.Sum256(archive) != sha256.Sum256(again) {
				t.Error("two builds differ")
			}
			if string(files) != string(filesAgain) {
				t.Error("two builds have other lists of files")
			}
			if arch == "amd64" {
				amd64 = sha256.Sum256(archive)
			}
			content := unpack(t, archive)
			checkFiles(t, arch, string(files), content)
			checkLibraries(t, content)
		})
	}
	if other, _ := build(t, "amd64", "SOURCE_DATE_EPOCH=1700000000"); sha256.Sum256(other) == amd64 {
		t.Error("the control: another time stamp gives an equal archive")
	}
}

// unpack returns the contents of an archive's files by their paths; of a symbolic link "-> " and its
// target.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	content := make(map[string]string)
	for in := tar.NewReader(strings.NewReader(string(archive))); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return content
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		switch name := path.Join("/", h.Name); h.Typeflag {
		case tar.TypeReg:
			content[name] = string(data)
		case tar.TypeSymlink:
			content[name] = "-> " + h.Linkname
		case tar.TypeDir:
		default:
			t.Errorf("%s is neither a file, a directory nor a symbolic link", name)
		}
	}
}

// checkFiles compares the list of files with the archive and with the lock.
func checkFiles(t *testing.T, arch, files string, content map[string]string) {
	t.Helper()
	lock, err := os.ReadFile("lock." + arch)
	if err != nil {
		t.Fatal(err)
	}
	locked := make(map[string]bool) // by package, version and source, whether it gave a file
	for line := range strings.Lines(string(lock)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 6 || len(fields[3]) != 64 || fields[5] != "main" && fields[5] != "security" {
			t.Errorf("lock.%s: %q, want package, version, source, sha256, path and archive", arch, line)
			continue
		}
		locked[strings.Join(fields[:3], "\t")] = false
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(files) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 5 {
			t.Errorf("%q: want path, package, version, source and sha256", line)
			continue
		}
		data, exists := content[fields[0]]
		listed[fields[0]] = true
		from := strings.Join(fields[1:4], "\t")
		if from != "-\t-\t-" {
			if _, known := locked[from]; !known {
				t.Errorf("%s is of %s, which is not locked", fields[0], from)
			}
			locked[from] = true
		}
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
		if strings.HasPrefix(data, "-> ") {
			sum = data
		}
		if !exists || fields[4] != sum {
			t.Errorf("%s: listed as %s, want %s", fields[0], fields[4], sum)
		}
	}
	for name := range content {
		if !listed[name] {
			t.Errorf("%s is not listed", name)
		}
	}
	for from, used := range locked {
		if !used {
			t.Errorf("%s is locked, and gives no file", from)
		}
	}
}

// checkLibraries checks that the libraries are those that programs need, directly or through other
// libraries. libgcc_s is loaded by name, and iconv's modules by the names of encodings.
func checkLibraries(t *testing.T, content map[string]string) {
	t.Helper()
	present, needed := make(map[string]bool), map[string]bool{"libgcc_s.so.1": true}
	for name, data := range content {
		if !strings.HasPrefix(data, elf.ELFMAG) {
			continue
		}
		f, err := elf.NewFile(strings.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		libraries, err := f.ImportedLibraries()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, library := range libraries {
			needed[library] = true
		}
		if strings.Contains(path.Base(name), ".so") && path.Base(path.Dir(name)) != "gconv" {
			present[path.Base(name)] = true
		}
	}
	converters := func(name string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(content)), func(path string) bool { return strings.HasSuffix(path, "/gconv/"+name) })
	}
	for name := range present {
		if !needed[name] {
			t.Errorf("nothing needs the library %s", name)
		}
	}
	for name := range needed {
		if !present[name] && !converters(name) {
			t.Errorf("the library %s is missing", name)
		}
	}
}

// TestLockedVersionIsGone checks what a build does if the mirror does not have a locked version: a
// release fails and says what to do, and another build takes the current version and says so.
func TestLockedVersionIsGone(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	lock, err := os.ReadFile("lock.amd64")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(lock)) {
		if fields := strings.Split(line, "\t"); fields[0] == "dash" {
			fields[1], fields[3] = "0.0.1", strings.Repeat("0", 64)
			fields[4] = "pool/main/d/dash/dash_0.0.1_amd64.deb"
			line = strings.Join(fields, "\t")
		}
		lines = append(lines, line)
	}
	out := testdir.New(t, "gone")
	old, cache := filepath.Join(out, "lock"), filepath.Join(out, "cache")
	if err := os.WriteFile(old, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(strict string) (string, error) {
		cmd := exec.Command("./build")
		cmd.Env = append(environ.Downloading(), "ARCH=amd64", "OUT="+out, "LOCK="+old, "FORCE=", "FRESH=", "STRICT="+strict)
		cmd.Env = append(cmd.Env, cacheIn(t, cache)...)
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	if said, err := run("1"); err == nil || !strings.Contains(said, "dash 0.0.1") || !strings.Contains(said, "make lock") {
		t.Errorf("STRICT=1: %v: %s", err, said)
	}
	if said, err := run(""); err != nil || !strings.Contains(said, "WARNING") || !strings.Contains(said, "dash 0.0.1") {
		t.Errorf("without STRICT: %v: %s", err, said)
	}
	if _, err := os.Stat(filepath.Join(cache, "helmdeck-repos")); err == nil {
		t.Error("a build of other versions than the locked ones is in the user's cache")
	}
	// A release does not take what that build left.
	if said, err := run("1"); err == nil {
		t.Errorf("STRICT=1 takes a build of other versions: %s", said)
	}
}
