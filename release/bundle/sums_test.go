package bundle

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// signed makes a directory with a file in a directory, its sums and a signature, and a list of allowed signers.
func signed(t *testing.T) (dir, signers string) {
	t.Helper()
	keys := t.TempDir()
	key := filepath.Join(keys, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signers = filepath.Join(keys, "allowed_signers")
	put(t, signers, "releases@example.com "+string(public))
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "plugin"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "plugin/index.json"), "{}\n")
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	if err := sign(t.Context(), dir, key); err != nil {
		t.Fatal(err)
	}
	return dir, signers
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// verifySignature runs the command of docs/releasing.md.
func verifySignature(t *testing.T, dir, signers string) error {
	t.Helper()
	list, err := os.Open(filepath.Join(dir, sums))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", signers, "-I", "releases@example.com", "-n", "file", "-s", filepath.Join(dir, signature))
	cmd.Stdin = list
	return cmd.Run()
}

func TestSignature(t *testing.T) {
	dir, signers := signed(t)
	if err := verifySignature(t, dir, signers); err != nil {
		t.Errorf("the signature is not good: %v", err)
	}
	if _, others := signed(t); verifySignature(t, dir, others) == nil {
		t.Error("the signature is good for another key")
	}
	put(t, filepath.Join(dir, sums), "")
	if verifySignature(t, dir, signers) == nil {
		t.Error("the signature of a changed file is good")
	}
	bad := filepath.Join(t.TempDir(), "key")
	put(t, bad, "not a key")
	if err := sign(t.Context(), dir, bad); err == nil || !strings.Contains(err.Error(), "could not sign with KEY="+bad) {
		t.Errorf("with a bad key: got %v", err)
	}
}

func TestVerify(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		change     func(dir string) error
	}{
		{"unchanged", "", func(string) error { return nil }},
		{"a changed file", "plugin/index.json was changed", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plugin/index.json"), []byte("[]\n"), 0o644)
		}},
		{"a missing file", "plugin/index.json is missing", func(dir string) error {
			return os.Remove(filepath.Join(dir, "plugin/index.json"))
		}},
		{"another file", "plugin/more is not in SHA256SUMS", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plugin/more"), nil, 0o644)
		}},
		{"a link", "not a regular file", func(dir string) error { return os.Symlink("index.json", filepath.Join(dir, "plugin/link")) }},
		{"no sums", "run make release first", func(dir string) error { return os.Remove(filepath.Join(dir, sums)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := signed(t)
			if err := tc.change(dir); err != nil {
				t.Fatal(err)
			}
			err := Verify(dir)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", sums) // it does not know of additional files
			cmd.Dir = dir
			if err := cmd.Run(); (tc.name == "unchanged") && err != nil {
				t.Errorf("sha256sum: %v", err)
			}
		})
	}
}
