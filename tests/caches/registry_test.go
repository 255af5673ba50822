package caches

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// serve serves what get returns for a path of a registry, or 404 for nil.
func serve(t *testing.T, get func(base, path string) []byte) (url string) {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := get(server.URL, r.URL.Path)
		if data == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "max-age=600")
		if strings.HasSuffix(r.URL.Path, "/") {
			w.Header().Set("Content-Type", "text/html")
		}
		w.Write(data)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// files is the content of a package, by path.
type files map[string]string

const (
	manyFiles = 60 // of a package, so that it takes time to unpack
	fileSize  = 10_000
)

// source returns the files of a package, with random text. line returns source code that has the text of a file.
func source(name, ext string, line func(i int, text string) string) files {
	f, random := make(files), rand.NewChaCha8(sha256.Sum256([]byte(name)))
	for i := range manyFiles {
		text := make([]byte, (fileSize+i*7)/2)
		random.Read(text)
		f[fmt.Sprintf("f%d%s", i, ext)] = line(i, hex.EncodeToString(text))
	}
	return f
}

// terms joins what term returns for each file's number.
func terms(between string, term string) string {
	var list []string
	for i := range manyFiles {
		list = append(list, strings.ReplaceAll(term, "#", fmt.Sprint(i)))
	}
	return strings.Join(list, between)
}

// zipped returns a zip of files, with names that begin with prefix.
func (f files) zipped(prefix string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		out, err := w.Create(prefix + name)
		if err != nil {
			panic(err)
		}
		out.Write([]byte(f[name]))
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// tarred returns a compressed tar of files, with names that begin with prefix.
func (f files) tarred(prefix string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := w.WriteHeader(&tar.Header{Name: prefix + name, Mode: 0o644, Size: int64(len(f[name]))}); err != nil {
			panic(err)
		}
		w.Write([]byte(f[name]))
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

// goProxy serves version v1.0.0 of each module example.com/rN/x.
func goProxy(t *testing.T) (url string) {
	module := regexp.MustCompile(`^/(example\.com/r\d+/(\w+))/@v/(list|v1\.0\.0\.(info|mod|zip))$`)
	return serve(t, func(_, path string) []byte {
		m := module.FindStringSubmatch(path)
		if m == nil {
			return nil
		}
		mod := "module " + m[1] + "\n"
		switch m[4] {
		case "info":
			return []byte(`{"Version":"v1.0.0"}`)
		case "mod":
			return []byte(mod)
		case "zip":
			f := source(m[1], ".go", func(i int, text string) string {
				return fmt.Sprintf("package %s\n\nvar s%d = %q\n", m[2], i, text)
			})
			f["go.mod"] = mod
			f["sum.go"] = "package " + m[2] + "\n\nfunc Sum() (n int) {\n" +
				terms("\n", "\tn = n*31%1000003 + len(s#) + int(s#[9])") + "\n\treturn n\n}\n"
			return f.zipped(m[1] + "@v1.0.0/")
		}
		return []byte("v1.0.0\n")
	})
}

// npmRegistry serves version 1.0.0 of each package rN-x.
func npmRegistry(t *testing.T) (url string) {
	tarball := regexp.MustCompile(`^/(r\d+-\w+)(/-/.*\.tgz)?$`)
	return serve(t, func(base, path string) []byte {
		m := tarball.FindStringSubmatch(path)
		if m == nil {
			return nil
		}
		f := source(m[1], ".js", func(i int, text string) string { return fmt.Sprintf("exports.s%d = '%s'\n", i, text) })
		f["package.json"] = fmt.Sprintf(`{"name": %q, "version": "1.0.0"}`, m[1])
		data := f.tarred("package/")
		if m[2] != "" {
			return data
		}
		sum := sha512.Sum512(data)
		return fmt.Appendf(nil, `{"name": %[1]q, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
"name": %[1]q, "version": "1.0.0",
"dist": {"tarball": "%[2]s/%[1]s/-/%[1]s-1.0.0.tgz", "integrity": "sha512-%[3]s"}}}}`,
			m[1], base, base64.StdEncoding.EncodeToString(sum[:]))
	})
}

// crateRegistry serves version 1.0.0 of each crate rN-x, as a sparse registry.
func crateRegistry(t *testing.T) (url string) {
	index := regexp.MustCompile(`^/(?:\w+/\w+|3/\w|\w\w/[\w-]+)/(r\d+-\w+)$`)
	crate := regexp.MustCompile(`^/crates/(r\d+-\w+)/1\.0\.0/download$`)
	data := func(name string) []byte {
		f := files{"Cargo.toml": fmt.Sprintf("[package]\nname = %q\nversion = \"1.0.0\"\nedition = \"2021\"\n", name)}
		line := func(_ int, text string) string { return fmt.Sprintf("pub const S: &str = %q;\n", text) }
		for path, text := range source(name, ".rs", line) {
			f["src/"+path] = text
		}
		f["src/lib.rs"] = terms("\n", "mod f#;") + "\npub fn sum() -> usize {\nlet mut n = 0;\n" +
			terms("\n", "n = n * 31 % 1000003 + f#::S.len() + f#::S.as_bytes()[9] as usize;") + "\nn\n}\n"
		return f.tarred(name + "-1.0.0/")
	}
	return serve(t, func(base, path string) []byte {
		if path == "/config.json" {
			return fmt.Appendf(nil, `{"dl": "%[1]s/crates", "api": "%[1]s"}`, base)
		}
		if m := crate.FindStringSubmatch(path); m != nil {
			return data(m[1])
		}
		if m := index.FindStringSubmatch(path); m != nil {
			sum := sha256.Sum256(data(m[1]))
			return fmt.Appendf(nil, `{"name":%q,"vers":"1.0.0","deps":[],"cksum":%q,"features":{},"yanked":false}`+"\n",
				m[1], hex.EncodeToString(sum[:]))
		}
		return nil
	})
}

// pipIndex serves version 1.0 of each package rN_x: a as a wheel, others as sources of which pip builds a wheel.
func pipIndex(t *testing.T) (url string) {
	page := regexp.MustCompile(`^/simple/(r\d+)-(\w+)/$`)
	file := regexp.MustCompile(`^/files/(r\d+_(\w+))-1\.0(-py3-none-any\.whl|\.tar\.gz)$`)
	return serve(t, func(base, path string) []byte {
		if m := page.FindStringSubmatch(path); m != nil {
			end := "-py3-none-any.whl"
			if m[2] != "a" {
				end = ".tar.gz"
			}
			return fmt.Appendf(nil, `<!DOCTYPE html><html><body><a href="%s/files/%s_%s-1.0%s">x</a></body></html>`,
				base, m[1], m[2], end)
		}
		m := file.FindStringSubmatch(path)
		if m == nil {
			return nil
		}
		name := m[1]
		f := make(files)
		line := func(_ int, text string) string { return fmt.Sprintf("S = '%s'\n", text) }
		for path, text := range source(name, ".py", line) {
			f[name+"/"+path] = text
		}
		f[name+"/__init__.py"] = "import hashlib\n" + terms("\n", "from . import f#") +
			"\ndef total():\n    h = hashlib.sha256()\n" +
			terms("\n", "    h.update(f#.S.encode())") + "\n    return h.hexdigest()\n"
		meta := "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"
		if m[3] == ".tar.gz" {
			f["pyproject.toml"] = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
			f["backend.py"] = "wheel = '" + name + "-1.0-py3-none-any.whl'\n" + backend
			f["PKG-INFO"] = meta
			return f.tarred(name + "-1.0/")
		}
		return wheel(f, name, meta)
	})
}

// backend builds a wheel of an unpacked source.
const backend = `
import os, zipfile

def build_wheel(directory, settings=None, metadata=None):
    name = wheel[:-len('-1.0-py3-none-any.whl')]
    with zipfile.ZipFile(os.path.join(directory, wheel), 'w', zipfile.ZIP_DEFLATED) as z:
        for file in sorted(os.listdir(name)):
            z.writestr(name + '/' + file, open(os.path.join(name, file)).read())
        info = name + '-1.0.dist-info/'
        z.writestr(info + 'METADATA', open('PKG-INFO').read())
        z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        z.writestr(info + 'RECORD', '')
    return wheel
`

// wheel returns a wheel of files.
func wheel(f files, name, meta string) []byte {
	info := name + "-1.0.dist-info/"
	f[info+"METADATA"] = meta
	f[info+"WHEEL"] = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	var record strings.Builder
	for _, path := range slices.Sorted(maps.Keys(f)) {
		sum := sha256.Sum256([]byte(f[path]))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(f[path]))
	}
	f[info+"RECORD"] = record.String() + info + "RECORD,,\n"
	return f.zipped("")
}
