package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	sums      = "SHA256SUMS"
	signature = sums + ".sig"
	namespace = "file" // of the signature, as ssh-keygen calls what is signed
)

// hashes returns the SHA-256 of each file in dir, except of the list of them and its signature.
func hashes(dir string) (map[string]string, error) {
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == sums || name == signature {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		h := sha256.New()
		if _, err := io.Copy(h, file); err != nil {
			return err
		}
		found[name] = fmt.Sprintf("%x", h.Sum(nil))
		return nil
	})
	return found, err
}

// writeSums writes SHA256SUMS as sha256sum does.
func writeSums(dir string) error {
	found, err := hashes(dir)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&list, "%s  %s\n", found[name], name)
	}
	return os.WriteFile(filepath.Join(dir, sums), []byte(list.String()), 0o644)
}

// Verify checks that a release has the files that its SHA256SUMS names, and no others.
func Verify(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil {
		return fmt.Errorf("no complete release: run make release first: %w", err)
	}
	found, err := hashes(dir)
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(list)) {
		hash, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		got, exists := found[name]
		delete(found, name)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s: %q is not a line of sha256sum", sums, line))
		case !exists:
			errs = append(errs, fmt.Errorf("%s is missing", name))
		case got != hash:
			errs = append(errs, fmt.Errorf("%s was changed: %s says %s, the file has %s", name, sums, hash, got))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		errs = append(errs, fmt.Errorf("%s is not in %s", name, sums))
	}
	return errors.Join(errs...)
}

// checkKey returns an error if there is no such key, before the work begins.
func checkKey(key string) error {
	if key == "" {
		return nil
	}
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		return fmt.Errorf("KEY=%s: signing needs OpenSSH's ssh-keygen: %w", key, err)
	}
	file, err := os.Open(key)
	if err != nil {
		return fmt.Errorf("KEY: want the path of a private ssh key, or of the public key if an agent has the private one: %w", err)
	}
	return file.Close()
}

// sign signs SHA256SUMS, and checks the signature.
func sign(ctx context.Context, dir, key string) error {
	list := filepath.Join(dir, sums)
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace, list).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen could not sign with KEY=%s: %w: %s", key, err, out)
	}
	data, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	check := exec.CommandContext(ctx, "ssh-keygen", "-Y", "check-novalidate", "-n", namespace, "-s", filepath.Join(dir, signature))
	check.Stdin = bytes.NewReader(data)
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("the signature is not good: %w: %s", err, out)
	}
	return nil
}
