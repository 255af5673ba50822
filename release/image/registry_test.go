package image_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/helmdeck/repos/release/image"
)

func TestRepository(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"registry.example.com/helmdeck/repos", ""},
		{"127.0.0.1:5000/repos", ""},
		{"localhost/repos", ""},
		{"", `"": want HOST/NAME`},
		{"helmdeck/repos", "want HOST/NAME"}, // docker would add a host
		{"registry.example.com/helmdeck/repos:1.2.3", "without a tag"},
		{"registry.example.com/Helmdeck/repos", "without a tag"},
		{"https://registry.example.com/repos", "want HOST/NAME"},
	} {
		_, err := image.Repository(tc.in)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: got %v, want %q", tc.in, err, tc.want)
		}
	}
}

// TestPlainHTTP checks that nothing is sent without TLS but on loopback. The address is of a block for documentation.
func TestPlainHTTP(t *testing.T) {
	sent := 0
	client := http.Client{Transport: image.Encrypted(transport(func(r *http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}))}
	for url, allowed := range map[string]bool{
		"http://192.168.1.1/v2/": false, "http://registry.example.com/v2/": false, "http://127.0.0.1.example.com/v2/": false,
		"http://127.0.0.1:5000/v2/": true, "http://[::1]/v2/": true, "http://localhost/v2/": true, "https://registry.example.com/v2/": true,
	} {
		sent = 0
		_, err := client.Get(url)
		if (err == nil) != allowed || (sent == 1) != allowed {
			t.Errorf("%s: got error %v and %d requests sent, want allowed %v", url, err, sent, allowed)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
