package csi

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1H": time.Hour, "2M": 2 * time.Minute, "120S": 2 * time.Minute, "4999m": 4999 * time.Millisecond, "4998573u": 4998573 * time.Microsecond,
		"99999999n": 99999999, "99999999S": 99999999 * time.Second, "99999999H": math.MaxInt64 / time.Hour * time.Hour, "0S": 0,
		"": -1, "S": -1, "1": -1, "1s": -1, "-1S": -1, "100000000S": -1, "1.5S": -1,
	} {
		got, err := parseTimeout(text)
		if want < 0 && CodeOf(err) != InvalidArgument || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestReadMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want Code
	}{
		"a message":       {string(frame(message("abc"))), OK},
		"an empty one":    {string(frame(nil)), OK},
		"nothing":         {"", Internal},
		"half a head":     {"\x00\x00", Internal},
		"half a message":  {"\x00\x00\x00\x00\x05abc", Internal},
		"a compressed":    {"\x01\x00\x00\x00\x03abc", Unimplemented},
		"a huge":          {"\x00\xff\xff\xff\xffabc", ResourceExhausted},
		"one that claims": {"\x00\x00\x3f\xff\xffabc", Internal},
	} {
		if _, err := readMessage(bytes.NewBufferString(tt.body)); CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %d", name, err, tt.want)
		}
	}
}

func TestEncodeText(t *testing.T) {
	if got, want := encodeText("100 % of „x“\n"), "100 %25 of %E2%80%9Ex%E2%80%9C%0A"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzParse checks that no message makes the parsers panic, and that they take time in
// proportion to its length.
func FuzzParse(f *testing.F) {
	f.Add([]byte(message{}.text(1, "v").text(4, "/t").message(5, message{}.message(2, nil)).flag(6, true).message(8, message{}.text(1, "repo").text(2, "x"))))
	f.Add([]byte(strings.Repeat("\x42\x00", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = parsePublish(data)
		_, _ = parseVolume(data)
		_, _, _ = parseRegistered(data)
	})
}
