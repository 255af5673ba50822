package hostile

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver/hostile"
)

// kept is a second line of the secret outside, which is in no repository.
const kept = "and this is kept outside"

// trap is a bait that says what was done to it.
type trap struct {
	hostile.Bait
	dir    string
	asked  *atomic.Int32
	secret string // what nothing may print or keep
	before string
}

// newTrap lays a bait that everybody may read and write, for what prepare adds to it.
func newTrap(t *testing.T, dir string, prepare func(t *testing.T, tr *trap)) *trap {
	t.Helper()
	asked := new(atomic.Int32)
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	t.Cleanup(listener.Close)
	outside := filepath.Join(dir, "outside")
	if err := os.MkdirAll(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte(hostile.Secret+kept+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	tr := &trap{Bait: hostile.Bait{Canary: filepath.Join(dir, "canary"), Outside: outside, URL: listener.URL}, dir: dir, asked: asked, secret: strings.TrimSpace(hostile.Secret)}
	if prepare != nil {
		prepare(t, tr)
	}
	tr.before = tr.outside(t)
	return tr
}

// outside is all that can be known of what lies outside.
func (tr *trap) outside(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(tr.Outside, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %d %v\n", path, info.Mode(), info.Size(), info.ModTime())
		return nil
	})
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err) // somebody has taken it away
	}
	return b.String()
}

// effects are what has happened; said is everything that was printed.
func (tr *trap) effects(t *testing.T, said string) map[hostile.Effect]bool {
	t.Helper()
	_, err := os.Lstat(tr.Canary)
	return map[hostile.Effect]bool{
		hostile.Runs:   err == nil,
		hostile.Asks:   tr.asked.Load() > 0,
		hostile.Reads:  strings.Contains(said, tr.secret),
		hostile.Writes: tr.outside(t) != tr.before,
	}
}

// holds looks for the secret in the regular files below a directory, and returns the first that has it. Large files are
// looked at in their beginnings only, and the directory may change meanwhile.
func (tr *trap) holds(dir string) (found string) {
	buffer := make([]byte, 64<<10)
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir
		case err != nil || !d.Type().IsRegular():
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		n, _ := f.Read(buffer)
		if strings.Contains(string(buffer[:n]), tr.secret) {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found
}
