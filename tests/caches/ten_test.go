package caches

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// many is how many containers work at once.
const many = 10

// TestTenAtOnce: containers download and delete at once. Each sees what it made itself and what was published before,
// and afterwards all that they finished is there, whole.
func TestTenAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	tenAtOnce(t, goTool(t), "go-mod/example.com/r%d", `
chmod -R u+w "$GOMODCACHE"; rm -rf "$GOMODCACHE/example.com" "$GOMODCACHE/cache/download"
`)
}

func TestRecipeTenNpm(t *testing.T) {
	t.Parallel()
	tenAtOnce(t, npmTool(t), "", "npm cache clean --force\n")
}

// tenAtOnce runs a tool in many containers. in is where a round's files are below the cache, or "". remove is a script
// that deletes what was published.
func tenAtOnce(t *testing.T, tool tool, in, remove string) {
	w := newWorld(t)
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 2))
	round := func(n int) []string { return append(tool.env, fmt.Sprint("ROUND=", n)) }
	first := w.start()
	published, out, err := first.run(false, tool.script, round(0)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first.end()
	w.published()

	containers, results := make([]container, many+1), make([]string, many+1)
	each := func(f func(i int, c container)) {
		var all sync.WaitGroup
		for i := 1; i <= many; i++ {
			all.Go(func() { f(i, containers[i]) })
		}
		all.Wait()
	}
	for i := 1; i <= many; i++ {
		containers[i] = w.start()
	}
	// Each third deletes what was published, and each fourth what it has made, and makes it again.
	each(func(i int, c container) {
		script, env := tool.script, round(i)
		switch {
		case i%3 == 0:
			script = "(" + remove + ")\n" + script
		case i%4 == 0:
			script = "(" + script + ") >/dev/null 2>&1\n(" + remove + ")\n" + script
		}
		got, out, err := c.run(false, script, env...)
		if err != nil || got == "" {
			t.Errorf("container %d: %v\n%s", i, err, out)
		}
		results[i] = got
	})
	if t.Failed() {
		return
	}
	each(func(i int, c container) {
		deleted := i%3 == 0 || i%4 == 0
		for n := range many + 1 {
			want := n == i || n == 0 && !deleted
			if in == "" { // it is seen by use only
				if n == i%many+1 {
					if got, out, err := c.run(true, tool.script, round(n)...); err == nil {
						t.Errorf("container %d has what %d made: %s\n%s", i, n, got, out)
					}
				}
				continue
			}
			_, err := os.Stat(filepath.Join(c.dir, ".git/hdcache", fmt.Sprintf(in, n)))
			if got := err == nil; got != want {
				t.Errorf("container %d has the files of %d: %v, want %v", i, n, got, want)
			}
		}
		if !deleted {
			c.want(fmt.Sprintf("container %d, with what was published", i), true, published, tool.script, round(0)...)
		}
		c.want(fmt.Sprintf("container %d, without a network", i), true, results[i], tool.script, round(i)...)
	})
	order := random.Perm(many)
	for _, i := range order {
		containers[i+1].end()
	}
	w.published()
	last := w.start("publish", "never")
	last.want("the published files, afterwards", true, published, tool.script, round(0)...)
	for i := 1; i <= many; i++ {
		last.want(fmt.Sprintf("container %d's files, afterwards", i), true, results[i], tool.script, round(i)...)
	}
	last.end()
}
