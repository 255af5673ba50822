package origin

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sirupsen/logrus"
)

func TestOrigin(t *testing.T) {
	if got := Of(t.Context()); got != (Origin{}) {
		t.Errorf("without a request: %+v", got)
	}
	request := Begin(t.Context(), Actor{Kind: Engine})
	volume := ForVolume(request, "v1")
	want := Origin{Request: Of(request).Request, Began: Of(request).Began, VolumeID: "v1", Actor: Actor{Kind: Engine}}
	if got := Of(volume); got != want || want.Request == "" || want.Began.IsZero() {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if ForVolume(volume, "") != volume || Of(request).VolumeID != "" {
		t.Error("an empty ID changed a context, or one of a volume its parent")
	}
	background := want
	background.Began = time.Time{}
	Bind(volume, func(ctx context.Context) {
		if got := Of(ctx); got != background {
			t.Errorf("in the background: %+v, want %+v", got, background)
		}
	})(context.Background())
	if got := Of(Carry(volume, t.Context())); got != want {
		t.Errorf("the plugin's own work took %+v from %+v", got, want)
	}
	if Of(Begin(request, Actor{})).Request == want.Request {
		t.Error("two requests have one ID")
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"alice", "alice"},
		{"a\nb", "a\nb"},
		{"\xff\xfe", "?"},
		{strings.Repeat("a", 2*MaxClaim), strings.Repeat("a", MaxClaim)},
		{strings.Repeat("a", MaxClaim-1) + "é", strings.Repeat("a", MaxClaim-1)},
		{strings.Repeat("a", MaxClaim-2) + "😀", strings.Repeat("a", MaxClaim-2)},
		{strings.Repeat("\xff", 1<<20), "?"},
	} {
		got := Clip(c.text, MaxClaim)
		if got != c.want || !utf8.ValidString(got) {
			t.Errorf("%.40q…: got %.40q… of %d bytes, want %.40q…", c.text, got, len(got), c.want)
		}
	}
}

func TestHook(t *testing.T) {
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, DisableTimestamp: true})
	log.AddHook(Hook{})
	ctx := ForVolume(Begin(t.Context(), NewUser(0, "mallory\nlevel=error")), "v1")
	log.WithContext(ctx).WithField("volume", "src").Info("done")
	want := `level=info msg=done claim="mallory\nlevel=error" request=` + Of(ctx).Request + ` uid=0 volume=src volume_id=v1` + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	log.WithContext(t.Context()).Info("own work")
	log.Info("no context")
	if want := "level=info msg=\"own work\"\nlevel=info msg=\"no context\"\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
