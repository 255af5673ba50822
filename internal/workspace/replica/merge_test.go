package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testtree"
)

// stack is a world with uppers that stand on one another, topmost first.
type stack struct {
	*world
	n int
}

func newStack(t *testing.T, dir string) *stack {
	s := &stack{world: &world{t: t, dir: dir, lower: dir + "/lower"}}
	check(t, os.MkdirAll(s.lower, 0o755))
	s.fill()
	return s
}

// add mounts a new upper on others, calls f with the mount, and returns the upper.
func (s *stack) add(uppers []string, f func(dir string)) string {
	s.t.Helper()
	s.n++
	dir := filepath.Join(s.dir, fmt.Sprint(s.n))
	spec := overlay.Spec{Lower: append(slices.Clone(uppers), s.lower), Upper: dir + "/upper", Work: dir + "/work", Target: dir + "/merged"}
	for _, d := range []string{spec.Upper, spec.Work, spec.Target} {
		check(s.t, os.MkdirAll(d, 0o755))
	}
	unmount := s.mount(spec)
	f(spec.Target)
	unmount()
	return spec.Upper
}

// shows returns what uppers show on the lower layer.
func (s *stack) shows(uppers []string) (lines map[string]string) {
	s.t.Helper()
	s.add(uppers, func(dir string) { lines = testtree.Describe(s.t, dir, false) })
	delete(lines, ".")              // of the upper that was made to show them
	for name, line := range lines { // a merge adds links
		lines[name] = links.ReplaceAllString(line, "")
	}
	return lines
}

var links = regexp.MustCompile(` links \d+`)

// merge merges uppers into a new layer.
func (s *stack) merge(uppers []string, l Limits) (string, Result, error) {
	s.t.Helper()
	return s.mergeBeside(uppers, l, nil)
}

// mergeBeside is merge with Options.Mounted.
func (s *stack) mergeBeside(uppers []string, l Limits, mounted func(int) bool) (string, Result, error) {
	s.t.Helper()
	s.n++
	to := filepath.Join(s.dir, fmt.Sprint(s.n))
	check(s.t, os.Mkdir(to, 0o700))
	var layers []*os.File
	for _, dir := range uppers {
		f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		check(s.t, err)
		defer f.Close()
		layers = append(layers, f)
	}
	out, err := os.OpenFile(to, unix.O_PATH|unix.O_DIRECTORY, 0)
	check(s.t, err)
	defer out.Close()
	r, err := Merge(context.Background(), layers, out, Options{Limits: l, Mounted: mounted})
	return to, r, err
}

// TestMergeEqualsStack merges uppers of random operations, each written on the others, and compares what the layer shows
// with what they show: alone, below more uppers, which were written on either, and merged again.
func TestMergeEqualsStack(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		n := 2
		if *worlds > 0 {
			n = *worlds
		}
		first := rand.Uint64()
		if *seed != 0 {
			first = *seed
		}
		for i := range uint64(n) {
			t.Run(fmt.Sprintf("seed=%d", first+i), func(t *testing.T) {
				at := filepath.Join(dir, fmt.Sprint(i))
				t.Cleanup(func() { check(t, os.RemoveAll(at)) })
				mergeRandom(t, newStack(t, at), first+i)
			})
		}
	})
}

func mergeRandom(t *testing.T, s *stack, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	write := func(on []string) string {
		return s.add(on, func(dir string) {
			ops := testtree.NewWriter(dir, "", r.Uint64())
			for range 5 + r.IntN(40) {
				ops.Do()
			}
			for range 3 {
				_ = ops.Create() // or few files are left in the end
			}
			ops.Close()
		})
	}
	compare := func(what string, want, got []string) {
		t.Helper()
		if d := testtree.Differ(s.shows(want), s.shows(got)); len(d) > 0 {
			t.Fatalf("%s: %s", what, testtree.Show(d))
		}
	}
	var uppers []string
	for range 16 + r.IntN(17) {
		uppers = append([]string{write(uppers)}, uppers...)
	}
	layer, result, err := s.merge(uppers, generous)
	check(t, err)
	if testing.Verbose() {
		t.Logf("%d uppers: %+v", len(uppers), result)
	}
	compare("merged", uppers, []string{layer})
	layers := []string{layer}
	for n := range 6 {
		on := layers
		if n%2 == 1 {
			on = uppers
		}
		upper := write(on)
		uppers, layers = append([]string{upper}, uppers...), append([]string{upper}, layers...)
		compare(fmt.Sprintf("%d more", n+1), uppers, layers)
	}
	again, _, err := s.merge(layers, generous)
	check(t, err)
	compare("merged again", uppers, []string{again})
	above := write([]string{again})
	compare("merged again, and below another", append([]string{above}, uppers...), []string{above, again})
}
