package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Whatever a subject is called, its clones stay in a folder of their own below clones/.
func TestSubjects(t *testing.T) {
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	e.create(t, "first", "repo="+r.url)
	e.sh(t, mount("first"), "git status")
	top := e.dataFolders(t)
	folders := e.subjectFolders(t)

	cases := []struct {
		name, subject string
		refused       bool
	}{
		{"slash", "a/b", false},
		{"its underscore cousin", "a_b", false},
		{"its escaped cousin", "a%2Fb", false},
		{"up", "..", false},
		{"here", ".", false},
		{"way up", "../../../etc", false},
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
				if said := e.refused(t, args...); !strings.Contains(said, "subject") {
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
			now := e.subjectFolders(t)
			if len(now) != len(folders)+1 {
				t.Errorf("got folders %q, want one more than %q", now, folders)
			}
			folders = now
		})
	}
	if got := e.dataFolders(t); !slices.Equal(got, top) {
		t.Errorf("the plugin's data: got %q, want %q", got, top)
	}
}

// subjectFolders are the names below clones/, each of which must hold clones and nothing else.
func (e *engine) subjectFolders(t *testing.T) []string {
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
			t.Errorf("clones/%s holds no clone", entry.Name())
		}
	}
	return names
}
