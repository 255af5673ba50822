package intake

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestElements: the bound counts what takes memory when it is decoded, and not the bytes of texts.
func TestElements(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		n    int
	}{
		{`1`, 1}, {`{}`, 2}, {`{"a":1}`, 3}, {`{"a":1,"a":2}`, 5}, {`[1,2,3]`, 4}, {`[[[`, 4}, {`"a,b:{["`, 1}, {`"\",\\"`, 1}, {`["\\",1]`, 3},
		{`"` + strings.Repeat(`,`, 1000), 1}, {`{},{}`, 4}, {``, 1}, {`"\`, 1},
	} {
		if err := Elements([]byte(tt.text), tt.n); err != nil {
			t.Errorf("%.20q with at most %d: %v", tt.text, tt.n, err)
		}
		if err := Elements([]byte(tt.text), tt.n-1); err == nil {
			t.Errorf("%.20q with at most %d: no error", tt.text, tt.n-1)
		}
	}
	for name, text := range map[string]string{
		"a million names": `{` + strings.Repeat(`"":0,`, 1<<20) + `"":0}`, "a name a million times": `{` + strings.Repeat(`"x":0,`, 1<<20) + `"x":0}`,
		"deep": strings.Repeat(`[`, 1<<20), "empty objects": `[` + strings.Repeat(`{},`, 1<<20) + `{}]`,
	} {
		if err := Elements([]byte(text), MaxElements); err == nil || !strings.Contains(err.Error(), "more than 10000") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzElements: no text has more elements than are counted.
func FuzzElements(f *testing.F) {
	f.Add(`{"a":[1,{"b\"":"c,:["}],"\\":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		if err := Elements([]byte(text), count(v)-1); err == nil {
			t.Errorf("%q has %d elements", text, count(v))
		}
	})
}

// count returns how many elements a decoded text has at least, as names that are repeated are there once.
func count(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			n += 1 + count(value)
		}
	case []any:
		for _, value := range v {
			n += count(value)
		}
	}
	return n
}

// TestWhole: large bodies wait for their turn, small ones do not, and waiting ends.
func TestWhole(t *testing.T) {
	body := func(n int) io.Reader { return strings.NewReader(strings.Repeat("x", n)) }
	read, release := make(chan int), make(chan struct{})
	for range large {
		go Whole(t.Context(), body(1<<20), func(data []byte) error {
			read <- len(data)
			<-release
			return nil
		})
	}
	for range large {
		if n := <-read; n != 1<<20 {
			t.Errorf("%d bytes", n)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the client has hung up")
	cancel(reason)
	if err := Whole(ctx, body(small), func([]byte) error { return nil }); err != reason {
		t.Errorf("one large body more: %v", err)
	}
	got := 0
	if err := Whole(t.Context(), body(small-1), func(data []byte) error { got = len(data); return nil }); err != nil || got != small-1 {
		t.Errorf("a small body: %d bytes, %v", got, err)
	}
	close(release)
	if err := Whole(t.Context(), body(small), func([]byte) error { return reason }); err != reason {
		t.Errorf("the error of use: %v", err)
	}
	if err := Whole(t.Context(), io.MultiReader(body(1<<20), failing{reason}), func([]byte) error { return nil }); err != reason {
		t.Errorf("the error of the body: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
