package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/testdisk"
)

// TestRoom checks that mounts on a disk that a container has filled get the room of unused clones. When
// no unused clone is left, the log names the volume that holds the room. The error does not, because
// that volume has another subject.
func TestRoom(t *testing.T) {
	t.Parallel()
	base, _ := smallDisk(t, testdisk.Filesystems[0].Make)
	b := &budget{server: remote(t), data: base, idle: true}
	b.start(t, "CHECKPOINT_TTL=0")
	const idle = 3
	for i := range idle {
		b.use(fmt.Sprint(i), false)
	}
	b.create("hungry", map[string]string{"repo": b.server.URL("sample"), "subject": "hungry", "cache": "off"})
	dir := b.mount("hungry", "1")
	b.settled()
	for i, room := 0, int64(256<<10); ; i++ {
		if err := fillUp(dir); err != nil {
			t.Fatal(err)
		}
		b.pass(10 * time.Minute)
		b.poll(func() error {
			if n, _ := b.get("hungry").Status["workspace_bytes"].(float64); n < 50<<20 {
				return fmt.Errorf("the written bytes are not measured: %v", n)
			}
			return nil
		})
		// Free enough for the records and a part of the clone.
		file := filepath.Join(dir, "out-of-hand")
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, info.Size()-room); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("new", i)
		if err := b.tryCreate(name, map[string]string{"repo": b.server.URL("sample"), "subject": name, "cache": "off"}); err != nil {
			if room *= 2; !full.MatchString(err.Error()) || room > 1<<20 {
				t.Fatal(err)
			}
			continue
		}
		err = b.tryMount(name, "1")
		if err == nil {
			if i > 2*idle {
				t.Fatalf("%d mounts worked on a full disk that had room for %d", i, idle)
			}
			continue
		}
		for _, want := range []string{"the disk is full", "are missing, and nothing more can be evicted", "of others: docker repos df and the plugin's log say whose"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("mount %d: got %v, want an error with %q", i, err, want)
			}
		}
		if strings.Contains(err.Error(), "hungry") {
			t.Errorf("mount %d: %v names another subject", i, err)
		}
		if want := `what was written to volume "hungry" (`; !strings.Contains(strings.ReplaceAll(b.log.String(), `\"`, `"`), want) {
			t.Errorf("the log does not say %q", want)
		}
		break
	}
	events, err := b.admin.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	went := make(map[string]bool)
	for _, e := range events {
		if e.Type == string(janitor.Evicted) && e.Reason == string(janitor.NoSpace) && e.Kind == janitor.WholeClone.String() {
			went[e.Subject] = true
		}
	}
	for i := range idle {
		if !went[fmt.Sprint(i)] {
			t.Errorf("clone %d was not evicted: %+v", i, events)
		}
	}
	b.unmount("hungry", "1")
	b.use("after", false)
}
