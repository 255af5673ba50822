package gitserver

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Endless fetches send well-formed packets until the client hangs up: otherwise Close would not
// return.
func TestEndlessFetches(t *testing.T) {
	for name, tt := range map[string]struct {
		fault Fault
		want  string // the first packets behind the header of the pack
	}{
		"counting":   {Counting(time.Millisecond), "0019\x02Counting objects: 0\r0019\x02Counting objects: 1\r"},
		"keep-alive": {KeepAlive(time.Millisecond), "0005\x010005\x010005\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			s, head := sample(t)
			s.Route("app", tt.fault)
			want := fmt.Sprintf("want %s\n", head)
			body := "0012command=fetch\n0001" + fmt.Sprintf("%04x", len(want)+4) + want + "0009done\n0000"
			answer, err := http.Post(s.URL("app")+"/git-upload-pack", "", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			expected := "000dpackfile\n" + tt.want
			got := make([]byte, len(expected))
			if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != expected {
				t.Errorf("got %q, %v, want %q", got, err, expected)
			}
			answer.Body.Close()
			s.Close()
		})
	}
}

// A frozen and remembered repository is cloned in its old state, by any name.
func TestFrozen(t *testing.T) {
	s, head := sample(t)
	frozen, err := Frozen(s.Path("app"))
	if err != nil {
		t.Fatal(err)
	}
	remember := Remember()
	for _, name := range []string{"a", "b"} {
		if err := os.Symlink(s.Path("app"), s.Path(name)); err != nil {
			t.Fatal(err)
		}
		s.Route(name, remember, frozen)
		dir := filepath.Join(t.TempDir(), "c")
		must(t, t.TempDir(), "clone", "-q", "--bare", s.URL(name), dir)
		if got := must(t, dir, "rev-parse", "refs/heads/main"); got != head {
			t.Errorf("%s: got %s, want %s", name, got, head)
		}
	}
}
