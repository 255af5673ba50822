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

	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
)

// secondLine is the second line of the secret outside, which is in no repository.
const secondLine = "and this is kept outside"

// trap is a bait that records what was done to it.
type trap struct {
	hostile.Bait
	dir    string
	asked  *atomic.Int32
	secret string // the text that nothing may print or store
	before string // the state of Outside before the attack
}

// newTrap makes a bait that everybody may read and write. prepare, if not nil, adds to it.
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
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte(hostile.Secret+secondLine+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	tr := &trap{Bait: hostile.Bait{Canary: filepath.Join(dir, "canary"), Outside: outside, URL: listener.URL}, dir: dir, asked: asked, secret: strings.TrimSpace(hostile.Secret)}
	if prepare != nil {
		prepare(t, tr)
	}
	tr.before = tr.outsideState(t)
	return tr
}

// outsideState describes all files in Outside.
func (tr *trap) outsideState(t *testing.T) string {
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
		fmt.Fprintf(&b, "%v\n", err) // an attack may have removed a file
	}
	return b.String()
}

// effects returns the effects that the attack had. said is everything that was printed.
func (tr *trap) effects(t *testing.T, said string) map[hostile.Effect]bool {
	t.Helper()
	_, err := os.Lstat(tr.Canary)
	return map[hostile.Effect]bool{
		hostile.Runs:   err == nil,
		hostile.Asks:   tr.asked.Load() > 0,
		hostile.Reads:  strings.Contains(said, tr.secret),
		hostile.Writes: tr.outsideState(t) != tr.before,
	}
}

// findSecret returns the first regular file below a directory with the secret in its first 64 KiB.
// The directory may change meanwhile.
func (tr *trap) findSecret(dir string) (found string) {
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
