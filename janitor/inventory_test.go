package janitor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

const day = 24 * time.Hour

var now = time.Unix(1_700_000_000, 0).UTC()

// scene reads an inventory from a text. Each line has a clone and its parts:
//
//	team/a 3d 40 leased; checkpoint d1 2h 10; tree t1 1h 5 needed
//
// A clone has its key (whose first half is the subject), how long ago it was used, and its
// size. A part has its kind, ID, how long ago it was used, and size. These words may follow: a
// hold, new (a clone that was never mounted), needed (a tree or git layer), and vNAME, the
// volume of a checkpoint or an upper. A size of 10/3 means 10 bytes in 3 inodes.
func scene(t *testing.T, text string) Inventory {
	t.Helper()
	inv := Inventory{Now: now}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		var c Clone
		for i, item := range strings.Split(line, ";") {
			f := strings.Fields(item)
			if i == 0 {
				subject, _, _ := strings.Cut(f[0], "/")
				c = Clone{Key: f[0], Subject: subject, Repo: "https://host/" + f[0], Used: ago(t, f[1]), Size: size(t, f[2]), Mounted: true}
				for _, word := range f[3:] {
					if word == "new" {
						c.Mounted, c.Made, c.Used = false, c.Used, 0
						continue
					}
					c.Use = use(hold(t, word))
				}
				continue
			}
			kind := Kind(slices.Index(kindWords, f[0]))
			p := Part{Kind: kind, ID: f[1], Used: ago(t, f[2]), Size: size(t, f[3])}
			for _, word := range f[4:] {
				switch {
				case word == "named":
					p.Named = true
				case word == "needed":
					p.Needed = true
				case word[0] == 'v':
					p.Volume = word
				default:
					p.Use = use(hold(t, word))
				}
			}
			c.Parts = append(c.Parts, p)
		}
		inv.Clones = append(inv.Clones, c)
	}
	return inv
}

var (
	kindWords = []string{"clone", "checkpoint", "tree", "git", "warm", "cache", "upper"}
	holdWords = []string{"free", "leased", "pending", "kept", "pinned", "busy", "failed", "just made", "exceeds all", "working"}
)

func hold(t *testing.T, word string) Hold {
	t.Helper()
	i := slices.Index(holdWords, word)
	if i < 0 {
		t.Fatalf("no hold %q", word)
	}
	return Hold(i)
}

// use returns a use that is held in this way.
func use(h Hold) Use {
	switch h {
	case Leased:
		return Use{Leased: true}
	case Pending:
		return Use{Attended: true}
	case Kept:
		return Use{Kept: true}
	case Pinned:
		return Use{Below: true}
	case Busy:
		return Use{Ended: true}
	case Failed:
		return Use{failed: true}
	case Working:
		return Use{Working: true}
	}
	return Use{}
}

// ago parses 3d, 2h, 1s or -4d: a time that long before now.
func ago(t *testing.T, text string) int64 { return Stamp(now.Add(-span(t, text))) }

func span(t *testing.T, text string) time.Duration {
	t.Helper()
	days, isDays := strings.CutSuffix(text, "d")
	if n, err := strconv.Atoi(days); err == nil && isDays {
		return time.Duration(n) * day
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func size(t *testing.T, text string) (s disk.Size) {
	t.Helper()
	bytes, inodes, ok := strings.Cut(text, "/")
	if !ok {
		inodes = "1"
	}
	for to, word := range map[*int64]string{&s.Bytes: bytes, &s.Inodes: inodes} {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		*to = n
	}
	return s
}

// words writes a plan's evictions as `reason key` or `reason key/id`.
func words(p Plan) []string {
	list := []string{}
	for _, e := range p.Evictions {
		what := e.Clone
		if e.Kind != WholeClone {
			what += "/" + e.ID
		}
		list = append(list, fmt.Sprintf("%s %s", e.Reason, what))
	}
	return list
}
