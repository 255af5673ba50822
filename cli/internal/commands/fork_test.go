package commands

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// TestForkWithoutEngine checks that nobody is sent to an engine that is not there.
func TestForkWithoutEngine(t *testing.T) {
	engine, err := client.New(client.WithHost("unix://" + filepath.Join(t.TempDir(), "docker.sock")))
	if err != nil {
		t.Fatal(err)
	}
	_, gone := engine.VolumeInspect(t.Context(), "v", client.VolumeInspectOptions{})
	for _, c := range []struct {
		err     error
		service bool
		want    string
	}{
		{gone, true, "no Docker engine runs this plugin, so no volume was made: give a new one the option from=d1 "},
		{gone, false, gone.Error()},
		{errors.New("no room"), true, "no room"},
	} {
		if got := inPlace(c.err, c.service, "d1"); !strings.HasPrefix(got.Error(), c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
