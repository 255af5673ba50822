package bundle

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/release/image"
	"github.com/helmdeck/repos/release/sbom"
)

// System is a system that the command docker repos is built for.
type System struct{ OS, Arch string }

// Systems are those of a release. The ones for Linux come first, because the others contain them as relays.
var Systems = []System{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// command makes an archive of the command for each system, and one bill of materials of all archives. A command for
// another system than Linux has the programs for Linux beside it, which it runs in the engine's machine.
func (r *release) command(ctx context.Context) error {
	var relays, all []image.File
	for _, s := range r.Systems {
		code, err := r.compileCommand(ctx, s)
		if err != nil {
			return err
		}
		files := []image.File{{Path: "docker-repos", Data: code}}
		if s.OS == "linux" {
			r.commands[s.Arch] = code
			relays = append(relays, image.File{Path: "repos-linux-" + s.Arch, Data: code})
		} else {
			files = append(files, relays...)
		}
		name, write := fmt.Sprintf("docker-repos_%s_%s_%s.tar.gz", r.Version, s.OS, s.Arch), writeTar
		if s.OS == "windows" {
			name, write = fmt.Sprintf("docker-repos_%s_%s_%s.zip", r.Version, s.OS, s.Arch), writeZip
			files[0].Path += ".exe"
		}
		if err := writeArchive(filepath.Join(r.dir, name), files, r.time, write); err != nil {
			return err
		}
		for _, f := range files {
			f.Path = name + "/" + f.Path
			all = append(all, f)
		}
	}
	document, err := sbom.Programs(r.about("docker-repos"), all)
	if err != nil {
		return err
	}
	return r.write("docker-repos.spdx.json", document)
}

// compile returns the program for a system that a target of the Makefile makes. output is the variable that names its file.
func (r *release) compile(ctx context.Context, s System, output string, target ...string) ([]byte, error) {
	path := filepath.Join(r.dir, ".program")
	target = append(target, "VERSION="+r.Version, output+"="+path)
	if err := r.make(ctx, []string{"GOOS=" + s.OS, "GOARCH=" + s.Arch}, target...); err != nil {
		return nil, err
	}
	code, err := os.ReadFile(path)
	return code, errors.Join(err, os.Remove(path))
}

// compileCommand returns the operator's command for a system, without relays.
func (r *release) compileCommand(ctx context.Context, s System) ([]byte, error) {
	return r.compile(ctx, s, "COMMAND", "cli", "RELAYS=")
}

type archiver func(w io.Writer, files []image.File, at time.Time) error

func writeArchive(name string, files []image.File, at time.Time, write archiver) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := write(out, files, at); err != nil {
		return err
	}
	return out.Close()
}

func writeTar(w io.Writer, files []image.File, at time.Time) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: 0o755, Size: int64(len(f.Data)), ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.Data); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

func writeZip(w io.Writer, files []image.File, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Path, Method: zip.Deflate, Modified: at.UTC()}
		header.SetMode(0o755)
		part, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.Data); err != nil {
			return err
		}
	}
	return archive.Close()
}
