package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1"
)

// entry is a file, directory or symbolic link of the layer.
type entry struct {
	header tar.Header
	data   []byte
}

// pack makes the layer of the root filesystem and programs, by path, and returns it compressed, with the digest of its
// uncompressed form.
func pack(s Source, programs map[string][]byte) (compressed []byte, diff v1.Hash, err error) {
	entries, err := read(s.Rootfs)
	if err != nil {
		return nil, diff, fmt.Errorf("the root filesystem: %w", err)
	}
	for name, code := range programs {
		entries = append(entries, entry{
			header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(code)), ModTime: s.Time},
			data:   code,
		})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.header.Name, b.header.Name) })
	for i, e := range entries[1:] {
		if entries[i].header.Name == e.header.Name {
			return nil, diff, fmt.Errorf("the root filesystem has %q twice, or a program that belongs to the plugin", e.header.Name)
		}
	}
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	sum := sha256.New()
	archive := tar.NewWriter(io.MultiWriter(zipped, sum))
	for _, e := range entries {
		if err := archive.WriteHeader(&e.header); err != nil {
			return nil, diff, err
		}
		if _, err := archive.Write(e.data); err != nil {
			return nil, diff, err
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, diff, err
	}
	return out.Bytes(), v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}, nil
}

// read reads the entries of a tar. It keeps name, type, mode, time and content, and nothing of the machine that made it.
func read(r io.Reader) ([]entry, error) {
	var entries []entry
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(h.Name)
		switch {
		case name == ".":
			continue
		case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink:
			return nil, fmt.Errorf("%q has type %q: only files, directories and symbolic links are allowed", name, h.Typeflag)
		case path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../"):
			return nil, fmt.Errorf("%q is outside of the root", name)
		case h.Uid != 0 || h.Gid != 0:
			return nil, fmt.Errorf("%q belongs to %d:%d, want 0:0", name, h.Uid, h.Gid)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{
			header: tar.Header{Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Mode: h.Mode, Size: h.Size, ModTime: h.ModTime},
			data:   data,
		})
	}
}

// File is a regular file or a symbolic link of an image.
type File struct {
	Path string // relative to the root
	Link string // the target of a symbolic link
	Data []byte
}

// Files reads the files of an image.
func Files(plugin v1.Image) ([]File, error) {
	layers, err := plugin.Layers()
	if err != nil {
		return nil, err
	}
	var files []File
	for _, layer := range layers {
		entries, err := uncompress(layer)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.header.Typeflag != tar.TypeDir {
				files = append(files, File{Path: e.header.Name, Link: e.header.Linkname, Data: e.data})
			}
		}
	}
	return files, nil
}

func uncompress(layer v1.Layer) ([]entry, error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return read(content)
}
