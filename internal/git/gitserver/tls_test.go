package gitserver

import (
	"os"
	"strings"
	"testing"
)

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	cases := []struct {
		name    string
		flaws   []Flaw
		trusted bool
		want    string // in the error; empty is success
	}{
		{"trusted", nil, true, ""},
		{"unknown authority", nil, false, "certificate"},
		{"wrong name", []Flaw{WrongName}, true, "does not match"},
		{"expired", []Flaw{Expired}, true, "verification failed"},
	}
	for _, c := range cases {
		s, err := StartTLS(t.TempDir(), c.flaws...)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := Generate(s.Path("app"), Spec{Files: 5}); err != nil {
			t.Fatal(err)
		}
		args := []string{"clone", s.URL("app"), "."}
		if c.trusted {
			args = append([]string{"-c", "http.sslCAInfo=" + caFile(t, s)}, args...)
		}
		out, err := client(t, t.TempDir(), args...)
		if (err == nil) != (c.want == "") || !strings.Contains(out, c.want) {
			t.Errorf("%s: got %v %q, want %q", c.name, err, out, c.want)
		}
		if got, want := len(s.Requests()) > 0, c.want == ""; got != want {
			t.Errorf("%s: a request arrived: %v, want %v", c.name, got, want)
		}
	}
}
