package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/volume"
)

const hidden = "s3cr3t-0f-th1s-t3st"

// shows fails if text contains the hidden secret in a form that printing could give it.
func shows(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{
		hidden, hex.EncodeToString([]byte(hidden)), strings.Trim(fmt.Sprint([]byte(hidden)), "[]"),
		base64.RawStdEncoding.EncodeToString([]byte(hidden)), strings.Trim(fmt.Sprintf("%#v", []byte(hidden)), "[]byte{}"),
	} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
			t.Errorf("%s shows the secret: %s", where, text)
		}
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	s := open(t, t.TempDir())
	c := Credential{Name: "c", Kind: HTTPS, Scope: "https://h/o", User: "u", Secret: NewSecret(hidden)}
	if err := s.Put(c); err != nil {
		t.Fatal(err)
	}
	m, err := s.Match(parse(t, "https://h/o/r"), "x", "", Fetch)
	if err != nil || m.Secret.Reveal() != hidden {
		t.Fatalf("got %v, %v", m, err)
	}
	_, otherHost := s.Match(parse(t, "https://other/o/r"), "x", "c", Fetch)
	type wrapper struct {
		Exported   any
		unexported Credential
		pointer    *Match
	}
	values := []any{
		c, &c, c.Secret, &c.Secret, []Secret{c.Secret}, map[string]Secret{"k": c.Secret}, map[Secret]int{c.Secret: 1}, [1]Credential{c},
		m, &m, []Match{m}, s.List(), s, *s.entries.Load(), otherHost, wrapper{c, c, &m}, &wrapper{m, c, &m}, []any{c, m},
	}
	for i, v := range values {
		for _, flags := range []string{"", "+", "#", " ", "-50", "0", ".3"} {
			for verb := 'A'; verb <= 'z'; verb++ {
				format := "%" + flags + string(verb)
				shows(t, fmt.Sprintf("value %d with %q", i, format), fmt.Sprintf(format, v))
			}
		}
		shows(t, "Println", fmt.Sprintln(v))
		if text, err := json.Marshal(v); err == nil {
			shows(t, fmt.Sprintf("JSON of value %d", i), string(text))
		}
		if text, err := xml.Marshal(v); err == nil {
			shows(t, fmt.Sprintf("XML of value %d", i), string(text))
		}
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("text", "value", v)
		}
		for _, f := range []logrus.Formatter{&logrus.TextFormatter{}, &logrus.JSONFormatter{}} {
			log := logrus.New()
			log.SetOutput(&out)
			log.SetFormatter(f)
			log.WithField("value", v).Infof("%v", v)
		}
		shows(t, fmt.Sprintf("log of value %d", i), out.String())
	}
	if got := c.Secret.String() + c.Secret.GoString(); got != redacted+redacted {
		t.Errorf("got %q", got)
	}
}

func TestSecretFromJSON(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		ok       bool
	}{
		{`"` + hidden + `"`, hidden, true},
		{`""`, "", true},
		{`"a\nb"`, "a\nb", true},
		{`null`, "", false},
		{`12345`, "", false},
		{`["` + hidden + `"]`, "", false},
		{`{"x":"` + hidden + `"}`, "", false},
	} {
		var s struct{ Secret Secret }
		err := json.Unmarshal([]byte(`{"Secret":`+tt.in+`}`), &s)
		if got := s.Secret.Reveal(); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s: got %q, %v", tt.in, got, err)
		}
		shows(t, "error", fmt.Sprint(err))
	}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t *testing.T, text string) volume.URL {
	t.Helper()
	u, err := volume.ParseURL(text, volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	return u
}
