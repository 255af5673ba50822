package main

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"testing"
)

// Files of the root filesystem stay. Missing tools become links to busybox.
func TestAddBusybox(t *testing.T) {
	var rootfs bytes.Buffer
	w := tar.NewWriter(&rootfs)
	for _, h := range []tar.Header{
		{Name: "./bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin"},
		{Name: "./usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./usr/bin/sh", Typeflag: tar.TypeSymlink, Linkname: "dash"},
		{Name: "./usr/bin/git", Mode: 0o755, Size: 3},
		{Name: "./usr/lib/ls", Mode: 0o644},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte("git")[:h.Size])
	}
	w.Close()

	var image bytes.Buffer
	box := busybox{[]byte("program"), []string{"busybox", "ls", "sh"}}
	if err := box.addTo(&image, &rootfs); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{} // a link's target, or a file's content
	for r := tar.NewReader(&image); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h.Linkname + string(content)
	}
	want := map[string]string{
		"./bin": "usr/bin", "./usr/bin/": "", "./usr/bin/sh": "dash", "./usr/bin/git": "git", "./usr/lib/ls": "",
		"usr/bin/busybox": "program", "usr/bin/ls": "busybox",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if err := box.addTo(io.Discard, bytes.NewReader([]byte("no archive"))); err == nil {
		t.Error("got no error for data that are not an archive")
	}
}
