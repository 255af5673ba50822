package volume

import (
	"maps"
	"testing"
)

// Volumes that find the same files checked out have the same Checkout, and Parse reads it.
func TestCheckout(t *testing.T) {
	t.Parallel()
	parse := func(options map[string]string) Options {
		t.Helper()
		given := map[string]string{"repo": "https://h/x"}
		maps.Copy(given, options)
		o, err := Parse(given, nil, AllSchemes())
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	plain := parse(nil).Checkout()
	for _, tt := range []struct {
		options map[string]string
		same    bool
	}{
		{map[string]string{"subject": "s", "mode": "keep", "cache": "off", "warm": "target", "warm_key": "k", "stale_if_error": "1h", "refresh": "1h"}, true},
		{map[string]string{"from": "0123456789abcdef"}, true},
		{map[string]string{"auth": "container"}, true},
		{map[string]string{"size": "1g", "inodes": "1000"}, true},
		{map[string]string{"cache_link": "false"}, true},
		{map[string]string{"cache_link": "true"}, false}, // git ignores the link
		{map[string]string{"publish": "never"}, true},
		{map[string]string{"warm_files": "go.sum", "warm_exact": "true"}, true},
		{map[string]string{"cold": "full"}, true},
		{map[string]string{"cold": "shallow"}, false}, // it is fetched in another way
		{map[string]string{"ref": "main"}, false},
		{map[string]string{"uid": "1"}, false},
		{map[string]string{"gid": "1"}, false},
		{map[string]string{"depth": "1"}, false},
		{map[string]string{"filter": "blob:none"}, false},
		{map[string]string{"sparse": "a"}, false},
		{map[string]string{"submodules": "true"}, false},
		{map[string]string{"lfs": "false"}, false},
		{map[string]string{"credential": "c"}, false},
		{map[string]string{"refresh": "never"}, false},
	} {
		o := parse(tt.options)
		if got := maps.Equal(o.Checkout(), plain); got != tt.same {
			t.Errorf("%v: the checkout is the same: %v, want %v", tt.options, got, tt.same)
		}
		again, err := Parse(o.Checkout(), nil, AllSchemes())
		if err != nil || !maps.Equal(again.Checkout(), o.Checkout()) {
			t.Errorf("%v: read again: %v, %v", tt.options, again, err)
		}
	}
}
