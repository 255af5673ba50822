package commands

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
)

// TestEvictSubject: the clones that stay are named, and one that is fetched while nobody waits is free.
func TestEvictSubject(t *testing.T) {
	idle, working, kept := "ci/0000000000000001", "ci/0000000000000002", "ci/0000000000000003"
	p := fake{
		"GET /v1/clones": map[string]any{"clones": []api.Clone{
			{Clone: idle, Held: "free", Free: true}, {Clone: working, Held: "being fetched or built", Free: true}, {Clone: kept, Held: "it has checkpoints"},
		}},
		"DELETE /v1/clones/" + idle: api.Freed{}, "DELETE /v1/clones/" + working: api.Freed{},
	}
	got := p.run(t, "", "evict", "--force", "--subject", "ci")
	if want := idle + "\n" + working + "\nTotal reclaimed space: 0B\n"; got.failed != nil || got.out != want {
		t.Errorf("got %q and %v, want %q", got.out, got.failed, want)
	}
	if !strings.HasPrefix(got.err, "These clones stay:\n  "+kept+": it has checkpoints\n") {
		t.Errorf("got the errors %q", got.err)
	}
	if got := p.run(t, "", "ls", "--format", "{{.Held}}"); got.out != "free\nfree: being fetched or built\nit has checkpoints\n" {
		t.Errorf("ls prints %q", got.out)
	}
}

// TestLookupClone: the beginning of a key or of its second part, or a URL, means one clone.
func TestLookupClone(t *testing.T) {
	one, two := "ci/0123456789abcdef", "ci/01ffffffffffffff"
	for word, want := range map[string]string{
		one: one, "012": one, "ci/012": one, "ci/01f": two, "01": "\"01\" means 2 clones: name one of them by its key\n  " + one + "\n  " + two,
		"https://h/x": "\"https://h/x\" means 2 clones", "c": `there is no clone "c": docker repos ls lists them, as SUBJECT/HASH`, "ci/": `"ci/" means 2 clones`,
	} {
		p := fake{
			"GET /v1/clones":           map[string]any{"clones": []api.Clone{{Clone: one}, {Clone: two}}},
			"DELETE /v1/clones/" + one: api.Freed{}, "DELETE /v1/clones/" + two: api.Freed{},
		}
		got := p.run(t, "", "evict", "--force", word)
		if ok := strings.HasPrefix(got.out, want+"\n"); !ok && (got.failed == nil || !strings.HasPrefix(got.failed.Error(), want)) {
			t.Errorf("%s: got %q and %v, want %q", word, got.out, got.failed, want)
		}
	}
}

// TestNothingDone: a command that finds nothing to do does not succeed.
func TestNothingDone(t *testing.T) {
	p := fake{
		"POST /v1/refresh":     map[string]any{"refreshed": []api.RefreshResult{}},
		"GET /v1/subjects/{n}": refuse(404, api.ErrorAnswer{Error: "there is no such subject"}),
	}
	for args, want := range map[string]string{
		"refresh https://h/x":                "nothing was refreshed: no ref of https://h/x was mounted in the last day",
		"refresh --ref main https://h/x":     `nothing was refreshed: not the ref "main" of https://h/x was mounted`,
		"subjects set ci --max-size default": "there is no such subject",
	} {
		if got := p.run(t, "", strings.Fields(args)...); got.failed == nil || !strings.HasPrefix(got.failed.Error(), want) || got.out != "" {
			t.Errorf("%s: got %q and %v, want %q", args, got.out, got.failed, want)
		}
	}
}
