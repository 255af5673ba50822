package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/volume"
)

func token(name string) Credential {
	return Credential{Name: name, Kind: HTTPS, Scope: "https://h/" + name, User: "u", Secret: NewSecret(hidden)}
}

func put(t *testing.T, s *Store, list ...Credential) {
	t.Helper()
	for _, c := range list {
		if err := s.Put(c); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
}

func TestPutRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, field, want string
		change            func(c *Credential)
	}{
		{"no name", "name", "", func(c *Credential) { c.Name = "" }},
		{"path as name", "name", `"../x" is not 1 to 64`, func(c *Credential) { c.Name = "../x" }},
		{"slash", "name", "", func(c *Credential) { c.Name = "a/b" }},
		{"hidden file", "name", "", func(c *Credential) { c.Name = ".a" }},
		{"option", "name", "", func(c *Credential) { c.Name = "-a" }},
		{"line break", "name", "", func(c *Credential) { c.Name = "a\n" }},
		{"not ASCII", "name", "", func(c *Credential) { c.Name = "ä" }},
		{"long", "name", "", func(c *Credential) { c.Name = strings.Repeat("a", 65) }},
		{"no kind", "kind", `"" is unknown; allowed: https, bearer, ssh-key, known-hosts`, func(c *Credential) { c.Kind = "" }},
		{"unknown kind", "kind", "", func(c *Credential) { c.Kind = "HTTPS" }},
		{"no scope", "scope", "empty", func(c *Credential) { c.Scope = "" }},
		{"ssh scope", "scope", "does not fit the kind", func(c *Credential) { c.Scope = "git@h:o" }},
		{"bearer with ssh scope", "scope", "", func(c *Credential) { c.Kind, c.User, c.Scope = Bearer, "", "ssh://h" }},
		{"key with https scope", "scope", "", func(c *Credential) { c.Kind, c.User = SSHKey, "" }},
		{"subject", "subject", "contains NUL", func(c *Credential) { c.Subject = "a\x00" }},
		{"long subject", "subject", "longer than 256", func(c *Credential) { c.Subject = volume.Subject(strings.Repeat("x", 257)) }},
		{"no user", "user", "x-access-token", func(c *Credential) { c.User = "" }},
		{"colon", "user", "colons", func(c *Credential) { c.User = "u:" + hidden }},
		{"control", "user", "", func(c *Credential) { c.User = hidden + "\n" }},
		{"user of bearer", "user", "only for the kind https", func(c *Credential) { c.Kind, c.User = Bearer, hidden }},
		{"user of a key", "user", "ssh://user@host", func(c *Credential) { c.Kind, c.User, c.Scope = SSHKey, hidden, "ssh://h" }},
		{"no secret", "secret", "missing", func(c *Credential) { c.Secret = Secret{} }},
		{"long", "secret", "longer than 16384", func(c *Credential) { c.Secret = NewSecret(strings.Repeat(hidden, 1000)) }},
		{"line break in token", "secret", "line break", func(c *Credential) { c.Secret = NewSecret(hidden + "\n") }},
		{"NUL in token", "secret", "", func(c *Credential) { c.Secret = NewSecret(hidden + "\x00") }},
		{"not UTF-8", "secret", "not UTF-8", func(c *Credential) { c.Secret = NewSecret(hidden + "\xff") }},
		{"lost in JSON", "secret", "not UTF-8", func(c *Credential) { c.Secret = NewSecret(hidden + "\ufffd") }},
		{"key as token", "secret", "its kind is ssh-key", func(c *Credential) { c.Secret = NewSecret("-----BEGIN PRIVATE KEY-----") }},
		{"whole header", "secret", "without the word Bearer", func(c *Credential) { c.Kind, c.User, c.Secret = Bearer, "", NewSecret("Bearer "+hidden) }},
	} {
		dir := t.TempDir()
		s := open(t, dir)
		c := token("c")
		tt.change(&c)
		err := s.Put(c)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != tt.field || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s: %s", tt.name, err, tt.field, tt.want)
			continue
		}
		shows(t, tt.name, err.Error())
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 || len(s.List()) > 0 {
			t.Errorf("%s: left %v, %v, %v", tt.name, files, s.List(), err)
		}
	}
}

func TestStoreAfterRestart(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	dir := filepath.Join(t.TempDir(), "a", "credentials")
	s := open(t, dir)
	if got := s.List(); got == nil || len(got) != 0 {
		t.Errorf("got %#v, want an empty list", got)
	}
	key := NewSecret(openSSH(t, newKey(t)))
	put(t, s,
		token("b"),
		Credential{Name: "B.2_x-y", Kind: Bearer, Scope: "https://H:443/", Subject: "team/\n\"a\"", Secret: NewSecret(hidden + "==")},
		Credential{Name: "k", Kind: SSHKey, Scope: "git@h:o", Secret: key},
		Credential{Name: "a", Kind: HTTPS, Scope: "http://127.0.0.1:8080", User: "ü", Secret: NewSecret(hidden + " <&> \"\\ ü")},
	)
	put(t, s, token("b")) // the same credential again, then another with the same name
	put(t, s, Credential{Name: "a", Kind: HTTPS, Scope: "http://127.0.0.1:8080", User: "w", Secret: NewSecret(hidden + "2 <&> \"\\ ü")})
	want := s.List()
	var names []string
	for _, i := range want {
		names = append(names, i.Name)
	}
	if got := strings.Join(names, " "); got != "B.2_x-y a b k" {
		t.Errorf("names %q", got)
	}
	if want[0].Scope != "https://h" || want[0].Subject != "team/\n\"a\"" || want[1].User != "w" || want[3].Scope != "ssh://git@h/o" {
		t.Errorf("got %+v", want)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4 {
		t.Errorf("files %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}

	s = open(t, dir)
	if got := s.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for name, want := range map[string]string{"http://127.0.0.1:8080/r": hidden + "2 <&> \"\\ ü", "git@h:o/r": key.Reveal()} {
		if m, err := s.Match(parse(t, name), "x", "", Fetch); err != nil || m.Secret.Reveal() != want {
			t.Errorf("%s: got %v, %v", name, m, err)
		}
	}
	if err := s.Remove("a"); err != nil {
		t.Error(err)
	}
	var missing *NotFoundError
	for _, name := range []string{"a", "", "../credentials/b", "b.json"} {
		if err := s.Remove(name); !errors.As(err, &missing) {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	for _, s := range []*Store{s, open(t, dir)} {
		if got := s.List(); len(got) != 3 || got[1].Name != "b" {
			t.Errorf("got %+v", got)
		}
	}
}

// TestDamagedFilesStay checks that an unreadable file is listed with the reason, matches nothing, and
// stays on disk until its name is put or removed.
func TestDamagedFilesStay(t *testing.T) {
	good := `{"name":"NAME","kind":"https","scope":"https://h","user":"u","secret":"` + hidden + `"}`
	for _, tt := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"cut", "damaged: store the credential again", text(good[:len(good)-3])},
		{"empty", "damaged", text("")},
		{"other type", "damaged", text(strings.Replace(good, `"https"`, `{"`+hidden+`":1}`, 1))},
		{"other name", "another credential", text(strings.Replace(good, "NAME", "other", 1))},
		{"unknown kind", `kind "x" is unknown`, text(strings.NewReplacer("NAME", "c", `"https"`, `"x"`).Replace(good))},
		{"link", "not a regular file", func(path string) error { return os.Symlink("/etc/passwd", path) }},
		{"directory", "not a regular file", func(path string) error { return os.Mkdir(path, 0o755) }},
		{"FIFO", "not a regular file", func(path string) error { return unix.Mkfifo(path, 0o600) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, open(t, dir), token("fine"))
			path := filepath.Join(dir, "c.json")
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, dir)
			list := s.List()
			if len(list) != 2 || list[1].Problem != "" || !reflect.DeepEqual(list[0], Info{Name: "c", Problem: list[0].Problem}) {
				t.Fatalf("got %+v", list)
			}
			if got := list[0].Problem; !strings.Contains(got, tt.want) || !strings.Contains(got, path) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			shows(t, "problem", list[0].Problem)
			if m, err := s.Match(parse(t, "https://h/o/r"), "x", "", Fetch); err != nil || m.Kind != "" {
				t.Errorf("got %v, %v", m, err)
			}
			if _, err := s.Match(parse(t, "https://h/o/r"), "x", "c", Fetch); err == nil || !strings.Contains(err.Error(), list[0].Problem) {
				t.Errorf("match by name: %v", err)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
				t.Errorf("the file was changed: %v", err)
			}
			if tt.name == "directory" {
				if err := s.Put(token("c")); err == nil || s.List()[0].Problem == "" {
					t.Errorf("put over a directory: %v, %+v", err, s.List())
				}
			} else {
				put(t, s, token("c"))
				if got := open(t, dir).List(); len(got) != 2 || got[0].Problem != "" {
					t.Errorf("list after Put: %+v", got)
				}
			}
			if err := s.Remove("c"); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file after Remove: %v", err)
			}
		})
	}
}

func text(data string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(data), 0o644) }
}

func TestOpenTidiesUp(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), token("c"))
	path, temp, other := filepath.Join(dir, "c.json"), filepath.Join(dir, durable.TempPrefix+"1"), filepath.Join(dir, "README")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o644), text(hidden)(temp), text("x")(other), text("x")(filepath.Join(dir, "-x.json"))); err != nil {
		t.Fatal(err)
	}
	if got := open(t, dir).List(); len(got) != 1 || got[0].Problem != "" {
		t.Errorf("got %+v", got)
	}
	for name, want := range map[string]fs.FileMode{dir: 0o700, path: 0o600, other: 0o644} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file of an interrupted Put is still there: %v", err)
	}
	if _, err := Open(other, Config{}); err == nil {
		t.Error("Open accepted a file")
	}
}

// TestPutFails checks that a failing disk changes nothing in memory.
func TestPutFails(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, token("c"))
	want := s.List()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	changed := token("c")
	changed.User = "other"
	for _, c := range []Credential{changed, token("d")} {
		err := s.Put(c)
		if !errors.Is(err, fs.ErrNotExist) || !reflect.DeepEqual(s.List(), want) {
			t.Errorf("got %v, %+v", err, s.List())
		}
		shows(t, "error", fmt.Sprint(err))
	}
}

func TestStoreConcurrently(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("c%d", i)
			for range 5 {
				if err := s.Put(token(name)); err != nil {
					t.Error(err)
				}
				if m, err := s.Match(parse(t, "https://h/"+name+"/r"), "x", name, Fetch); err != nil || m.Name != name {
					t.Errorf("got %v, %v", m, err)
				}
				s.List()
				if i%2 == 0 {
					if err := s.Remove(name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if got, again := s.List(), open(t, dir).List(); len(got) != 4 || !reflect.DeepEqual(got, again) {
		t.Errorf("got %+v, on disk %+v", got, again)
	}
}

// TestFilesOfOtherVersions checks that files without the new fields are read, and that a
// version without them can read the files of static credentials.
func TestFilesOfOtherVersions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := `{"name":"c","kind":"https","scope":"https://h","user":"u","secret":"` + hidden + `"}`
	if err := text(old)(filepath.Join(dir, "c.json")); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if got := s.List()[0]; got.Problem != "" || got.Allow != Fetch {
		t.Fatalf("got %+v", got)
	}
	c := token("c")
	c.Scope = "https://h"
	put(t, s, c, broker("b"))
	if got, err := os.ReadFile(filepath.Join(dir, "c.json")); err != nil || string(got) != old {
		t.Errorf("the file is\n%s, %v, want\n%s", got, err, old)
	}
	for range 2 {
		if got := open(t, dir).List(); len(got) != 2 || got[0].Problem+got[1].Problem != "" || got[0].Kind != HTTPProvider || got[0].Provider != "https://broker/x" {
			t.Errorf("got %+v", got)
		}
	}
}
