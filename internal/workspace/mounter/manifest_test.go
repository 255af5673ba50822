package mounter

import (
	"reflect"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
)

// TestRebuiltLayers: a rebuilt record has what any workspace on the layer knows of it,
// whichever manifest is read first.
func TestRebuiltLayers(t *testing.T) {
	t.Parallel()
	lasting := meta.Layer{Clone: "s/1", ID: "t", Boot: "b", Durable: true}
	known := meta.Layer{Clone: "s/1", ID: "t", Boot: "b", Commit: "c", TracksCache: true}
	want := known
	want.Durable = true
	for _, order := range [][]meta.Layer{{lasting, known}, {known, lasting}} {
		layers := make(map[string]meta.Layer)
		for _, l := range order {
			addLayer(layers, l)
		}
		if got := layers["s/1/t"]; len(layers) != 1 || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", layers, want)
		}
	}
}
