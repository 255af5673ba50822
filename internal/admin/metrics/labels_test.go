package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"
)

// TestLabelsArePrintable checks that the name of a subject can't write to a terminal that shows
// the metrics, and that no two subjects share a series, which would spoil the whole scrape.
func TestLabelsArePrintable(t *testing.T) {
	names := []string{"a\x1b[2J", `"a\x1b[2J"`, `a\x1b[2J`, "a\n", "a\r", "\u009b", "\u202e", "\xff", "?", "\ufffd", "ä"}
	h, _ := handler(true, func() Figures {
		f := sample()
		for i, name := range names {
			f.Subject(name).Leases = i + 10
		}
		return f
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := w.Body.String()
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("the metrics have a character that is not printable: %q", text)
	}
	series := scrape(t, h)["helmdeck_repos_subject_leases"].GetMetric()
	if got, want := len(series), len(names)+1; got != want {
		t.Errorf("got %d series, want %d", got, want)
	}
}
