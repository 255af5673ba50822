package cache

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkCollect publishes 1,000 new files of 100 KB, over 8 layers.
func BenchmarkCollect(b *testing.B) {
	for _, how := range []string{"move", "copy"} {
		b.Run(how, func(b *testing.B) {
			w := newBench(b)
			w.copy = how == "copy"
			text := strings.Repeat("0123456789", 10_000)
			for range 8 {
				w.write("go-build/00/other-d", "x")
				w.layers = append(w.layers, w.from)
				w.renew()
			}
			published := w.layers
			for b.Loop() {
				b.StopTimer()
				w.layers = published
				w.renew()
				for i := range 1000 {
					w.write(fmt.Sprintf("go-build/%02x/%d-d", i%256, i), text)
				}
				b.StartTimer()
				if r := w.collect(now); r.Files != 1000 {
					b.Fatalf("%+v", r)
				}
			}
		})
	}
}

// BenchmarkUnion merges 100,000 files of 8 layers.
func BenchmarkUnion(b *testing.B) {
	w := newBench(b)
	for l := range 8 {
		for i := range 12_500 {
			w.write(fmt.Sprintf("npm/_cacache/content-v2/sha512/%02x/%d-%d", i%256, l, i), "")
		}
		w.layers = append(w.layers, w.from)
		w.renew()
	}
	for b.Loop() {
		if _, err := Union(b.Context(), w.layers, w.mkdir("union"), uid, gid, ""); err != nil {
			b.Fatal(err)
		}
	}
}
