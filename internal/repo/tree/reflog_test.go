package tree

import "testing"

// TestWithoutUser checks URLs in reflogs. The right values are those of git clone.
func TestWithoutUser(t *testing.T) {
	for url, want := range map[string]string{
		"https://h/o/r":            "https://h/o/r",
		"https://u@h:1/o/r":        "https://h:1/o/r",
		"https://h/o/@r":           "https://h/o/@r",
		"ssh://git@h:22/~/r":       "ssh://h:22/~/r",
		"git@h:o/r.git":            "h:o/r.git",
		"h:o/r.git":                "h:o/r.git",
		"ssh://git@[2001:db8::]/r": "ssh://[2001:db8::]/r",
	} {
		if got := withoutUser(url); got != want {
			t.Errorf("withoutUser(%q) = %q, want %q", url, got, want)
		}
	}
}
