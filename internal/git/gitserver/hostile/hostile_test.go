package hostile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// trap is a Bait that detects effects.
type trap struct {
	Bait
	asked *atomic.Int32
}

func bait(t *testing.T) trap {
	t.Helper()
	asked := new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte(Secret), 0o644); err != nil {
		t.Fatal(err)
	}
	return trap{Bait{Canary: filepath.Join(dir, "canary"), Outside: outside, URL: server.URL}, asked}
}

// effects returns the effects so far of an attack, whose script ended with output and err.
func (b trap) effects(output string, err error) map[Effect]bool {
	_, missing := os.Stat(b.Canary)
	entries, _ := os.ReadDir(b.Outside)
	return map[Effect]bool{
		None:   true,
		Runs:   missing == nil,
		Asks:   b.asked.Load() > 0,
		Reads:  strings.Contains(output, strings.TrimSpace(Secret)),
		Writes: len(entries) != 1,
		Fails:  err != nil,
	}
}

func shell(dir, script string, env ...string) (string, error) {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
	}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Every repository can be fetched, and no attack has an effect before the checkout.
func TestDelivered(t *testing.T) {
	s := testgit.Serve(t)
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			short.OneOf(t, 6)
			t.Parallel()
			trap := bait(t)
			head, err := c.Build(filepath.Dir(s.Path("x")), c.Name, trap.Bait)
			if err != nil {
				t.Fatal(err)
			}
			script := `git clone -q --bare "$REPO" b && git -C b rev-parse refs/heads/main`
			s.Route(c.Name, c.Faults(s.Path(c.Name), trap.Bait)...)
			if c.Unwalkable {
				script = `git clone -q --bare "$REPO" b; true` // git may refuse the objects
				if out, err := shell(s.Path(c.Name), `git cat-file --batch-all-objects --batch-check='%(objectname)' | git pack-objects -q --stdout >/dev/null`); err != nil {
					t.Errorf("can't be packed: %v\n%s", err, out)
				}
			}
			out, err := shell(t.TempDir(), script, "REPO="+s.URL(c.Name))
			if err != nil || !c.Unwalkable && !strings.Contains(out, head) {
				t.Errorf("got %v %q, want %s", err, out, head)
			}
			for effect, happened := range trap.effects("", nil) {
				if happened && effect != None {
					t.Errorf("the fetch alone has the effect %q", effect)
				}
			}
			if got := s.Stats(c.Name).Fetches; got == 0 {
				t.Error("nothing was fetched")
			}
		})
	}
}

// Every control has the effect that the table says.
func TestControls(t *testing.T) {
	s := testgit.Serve(t)
	for _, c := range Cases() {
		if (c.Effect == None) != (c.Control == "") {
			t.Errorf("%s: effect %q of control %q", c.Name, c.Effect, c.Control)
		}
		if c.Control == "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			short.OneOf(t, 6)
			t.Parallel()
			trap := bait(t)
			if _, err := c.Build(filepath.Dir(s.Path("x")), c.Name, trap.Bait); err != nil {
				t.Fatal(err)
			}
			s.Route(c.Name, c.Faults(s.Path(c.Name), trap.Bait)...)
			out, err := shell(t.TempDir(), c.Control, "REPO="+s.URL(c.Name), "CANARY="+trap.Canary, "OUTSIDE="+trap.Outside, "BAIT="+trap.URL)
			if !trap.effects(out, err)[c.Effect] {
				t.Errorf("the control does not have the effect %q: %v\n%.2000s", c.Effect, err, out)
			}
		})
	}
}

func TestTable(t *testing.T) {
	names, mechanisms := map[string]bool{}, map[string]bool{}
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	needs := map[Need]int{}
	for _, c := range Cases() {
		if !form.MatchString(c.Name) || names[c.Name] {
			t.Errorf("name %q", c.Name)
		}
		if c.Abuses == "" || mechanisms[c.Abuses] {
			t.Errorf("%s: mechanism %q", c.Name, c.Abuses)
		}
		names[c.Name], mechanisms[c.Abuses] = true, true
		needs[c.Need]++
	}
	if len(needs) != 3 || needs[Checkout] == 0 {
		t.Errorf("needs are %v", needs)
	}
	for _, cve := range []string{
		"CVE-2024-32002", "CVE-2024-32004", "CVE-2024-32465", "CVE-2025-48384", "CVE-2025-48385", "CVE-2024-10220", "CVE-2025-1767", "CVE-2026-33748",
		"CVE-2018-17456", "CVE-2018-11235", "CVE-2014-9390", "CVE-2022-39253",
	} {
		found := false
		for _, c := range Cases() {
			found = found || c.CVE == cve
		}
		if !found {
			t.Errorf("%s is not in the table", cve)
		}
	}
	if got := len(names); got < 100 {
		t.Errorf("got %d cases", got)
	}
}

func TestBuildTwice(t *testing.T) {
	dir := t.TempDir()
	c := Cases()[0]
	if _, err := c.Build(dir, "x", Bait{Canary: "/c", Outside: "/o"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Build(dir, "x", Bait{}); !os.IsExist(err) {
		t.Errorf("got %v, want %v", err, os.ErrExist)
	}
}

// All advertised refs reach the client: git lists them, or refuses the answer with an error.
func TestAdverts(t *testing.T) {
	s := testgit.Serve(t)
	id, err := gitserver.Generate(s.Path("app"), gitserver.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range Adverts(id) {
		if seen[a.Name] || a.Abuses == "" {
			t.Errorf("name %q, mechanism %q", a.Name, a.Abuses)
		}
		seen[a.Name] = true
		if a.Endless {
			continue
		}
		s.Route("app", gitserver.Advertise(a.Refs))
		out, err := shell(t.TempDir(), `git ls-remote --symref "$REPO"`, "REPO="+s.URL("app"))
		if err != nil && strings.Contains(out, "invalid ls-refs response") {
			continue // git has read and refused the answer
		}
		var want strings.Builder
		for ref := range a.Refs {
			if ref.ID == "unborn" {
				continue // git does not list it
			}
			if ref.Target != "" {
				fmt.Fprintf(&want, "ref: %s\t%s\n", ref.Target, ref.Name)
			}
			fmt.Fprintf(&want, "%s\t%s\n", ref.ID, ref.Name)
			if ref.Peeled != "" {
				fmt.Fprintf(&want, "%s\t%s^{}\n", ref.Peeled, ref.Name)
			}
		}
		if err != nil || out != want.String() {
			t.Errorf("%s: got %v %.500q, want %.500q", a.Name, err, out, want.String())
		}
	}
}
