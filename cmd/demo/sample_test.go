package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tip returns the commit of the sample's ref.
func tip(t *testing.T, s *sample) string {
	t.Helper()
	out, err := exec.Command("git", "ls-remote", s.repo, "refs/heads/"+s.ref).Output()
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(string(out), "\t")
	return id
}

// The sample is the same each time, even if another program uses its address, and leaves nothing
// behind.
func TestSample(t *testing.T) {
	usual, err := startSampleAt(filepath.Join(t.TempDir(), "demo"), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSuffix(strings.TrimPrefix(usual.repo, "http://"), "/"+sampleName)
	other, err := startSampleAt(filepath.Join(t.TempDir(), "demo"), address)
	if err != nil {
		t.Fatal(err)
	}
	if usual.repo == other.repo {
		t.Errorf("both samples have the URL %s", usual.repo)
	}
	if got, want := tip(t, other), tip(t, usual); got != want {
		t.Errorf("got commit %s, want %s", got, want)
	}
	for _, s := range []*sample{usual, other} {
		if clones, requests := s.clones(), s.refRequests(); clones != 0 || requests != 1 {
			t.Errorf("got %d clones and %d requests for refs, want no clone and one request", clones, requests)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
			t.Errorf("%s still exists: %v", s.dir, err)
		}
	}
}

func TestCheck(t *testing.T) {
	cases := []struct {
		source source
		want   string // in the error; empty for none
	}{
		{source{"https://h/p", ""}, ""},
		{source{"https://h/p", "main"}, ""},
		{source{"ssh://git@h/p", "main"}, ""}, // a setting of the plugin decides whether ssh is allowed
		{source{"https://user:secret@h/p", ""}, "REPO"},
		{source{"file:///etc", ""}, "REPO"},
		{source{"https://h/p", "--upload-pack=x"}, "REF"},
	}
	for _, c := range cases {
		err := c.source.check()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.source, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error contains the password: %v", err)
		}
	}
}

func TestAnonymousMount(t *testing.T) {
	cases := []struct {
		source source
		want   string
	}{
		{source{"https://h/p", ""}, "type=volume,volume-driver=helmdeck/repos,volume-opt=repo=https://h/p,dst=/w"},
		{source{"https://h/p", "v1"}, "type=volume,volume-driver=helmdeck/repos,volume-opt=repo=https://h/p,volume-opt=ref=v1,dst=/w"},
		{source{"https://h/a,b", ""}, `type=volume,volume-driver=helmdeck/repos,"volume-opt=repo=https://h/a,b",dst=/w`},
	}
	for _, c := range cases {
		if got := c.source.anonymousMount(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
