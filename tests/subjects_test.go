package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The clones of every subject are in one directory of their own below clones/, whatever the
// subject's name is.
func TestSubjects(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	e.create(t, "first", "repo="+r.url)
	e.sh(t, mount("first"), "git status")
	top := e.dataNames(t)
	names := e.subjectNames(t)

	cases := []struct {
		name, subject string
		refused       bool
	}{
		{"slash", "a/b", false},
		{"underscore in place of the slash", "a_b", false},
		{"escaped slash", "a%2Fb", false},
		{"parent directory", "..", false},
		{"current directory", ".", false},
		{"several parent directories", "../../../etc", false},
		{"absolute", "/etc", false},
		{"newline", "a\nb", false},
		{"trash", "trash", false},
		{"upper case", "A/B", false},
		{"blank", " ", false},
		{"beyond ASCII", "Grüße", false},
		{"256 bytes", strings.Repeat("x", 256), false},
		{"300 bytes", strings.Repeat("x", 300), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			volume := subject(t)
			args := append([]string{"volume", "create"}, createArgs(volume, "repo="+r.url, "subject="+c.subject)...)
			if c.refused {
				if said := e.wantError(t, args...); !strings.Contains(said, "subject") {
					t.Errorf("the message does not name the option: %s", said)
				}
				return
			}
			t.Cleanup(func() { e.Try("volume", "rm", "--force", volume) })
			if _, err := e.Try(args...); err != nil {
				// Refusing is allowed, as long as it names the option.
				if !strings.Contains(err.Error(), "subject") {
					t.Error(err)
				}
				return
			}
			if got := parseStamp(t, e.sh(t, mount(volume), printStamp)); got.Subject != c.subject {
				t.Errorf("helmdeck.json: got subject %q, want %q", got.Subject, c.subject)
			} else if got.Reused {
				t.Error("the clone of another subject was reused")
			}
			now := e.subjectNames(t)
			if len(now) != len(names)+1 {
				t.Errorf("got directories %q, want one more than %q", now, names)
			}
			names = now
		})
	}
	if got := e.dataNames(t); !slices.Equal(got, top) {
		t.Errorf("the plugin's data: got %q, want %q", got, top)
	}
}

// subjectNames returns the names in clones/, and checks that each directory has a clone.
func (e *engine) subjectNames(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(e.Data("clones"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		clones, err := filepath.Glob(e.Data("clones", entry.Name(), "*", "store"))
		if err != nil || len(clones) == 0 {
			t.Errorf("clones/%s has no clone", entry.Name())
		}
	}
	return names
}
