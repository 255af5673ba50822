package janitor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// big is a filesystem that limits nothing.
var big = disk.Space{Total: disk.Size{Bytes: 1 << 40, Inodes: 1 << 40}, Free: disk.Size{Bytes: 1 << 40, Inodes: 1 << 40}}

func space(total, free, totalInodes, freeInodes int64) disk.Space {
	return disk.Space{Total: disk.Size{Bytes: total, Inodes: totalInodes}, Free: disk.Size{Bytes: free, Inodes: freeInodes}}
}

// TestDecide has a row for each rule.
func TestDecide(t *testing.T) {
	week := Limits{TTL: 7 * day, CheckpointTTL: day, Grace: 5 * 60e9}
	limit := func(change func(*Limits)) Limits {
		l := week
		change(&l)
		return l
	}
	max100 := limit(func(l *Limits) { l.MaxSize = 100 })
	subject100 := limit(func(l *Limits) { l.SubjectMaxSize = 100 })
	free10 := limit(func(l *Limits) { l.MinFree = 0.1 })
	room50 := limit(func(l *Limits) { l.Room = disk.Size{Bytes: 50, Inodes: 5} })

	// a clone or part of size 10 for each stage, all of the same age
	stages := `
		t/idle 1h 10; warm w 1h 10; cache c 1h 10; tree old 1h 10; git g 1h 10; checkpoint d 1h 10
		t/held 1h 10 leased; tree old 1h 10`

	for _, tt := range []struct {
		name    string
		lim     Limits
		space   disk.Space
		trash   int64
		scene   string
		want    string // words, separated by commas
		missing string // reason and bytes
	}{
		// Without pressure.
		{"nothing there", week, big, 0, "", "", ""},
		{"nothing to do", week, big, 0, stages, "", ""},
		{"no limits at all", Limits{CheckpointTTL: day}, big, 0, "t/a 900d 10", "", ""},
		{"a checkpoint before its time", week, big, 0, "t/a 1h 10; checkpoint d 23h 5", "", ""},
		{"a checkpoint past its time", week, big, 0, "t/a 1h 10; checkpoint d 24h 5; checkpoint e 23h 5", "expired t/a/d", ""},
		{"expired checkpoints oldest first", week, big, 0, "t/a 1h 10; checkpoint d 30h 5; checkpoint e 40h 5\n t/b 1h 1; checkpoint f 35h 5", "expired t/a/e, expired t/b/f, expired t/a/d", ""},
		{"a checkpoint of a clone in use", week, big, 0, "t/a 1h 10 leased; checkpoint d 30h 5", "expired t/a/d", ""},
		{"a checkpoint that is in use", week, big, 0, "t/a 1h 10; checkpoint d 30h 5 busy", "", ""},
		{"CHECKPOINT_TTL of 0 keeps no checkpoint", limit(func(l *Limits) { l.CheckpointTTL = 0 }), big, 0, "t/a 1h 10; checkpoint d 0s 5", "expired t/a/d", ""},
		{"an idle clone within TTL", week, big, 0, "t/a 167h 10", "", ""},
		{"an idle clone past TTL", week, big, 0, "t/a 168h 10; tree x 1h 5 needed; cache c 1h 2", "ttl t/a", ""},
		{"TTL of 0 keeps clones", limit(func(l *Limits) { l.TTL = 0 }), big, 0, "t/a 900d 10; tree x 900d 5", "", ""},
		{"idle clones longest unused first", week, big, 0, "t/a 170h 1\n t/b 190h 1\n t/c 180h 1", "ttl t/b, ttl t/c, ttl t/a", ""},
		{"a leased clone past TTL", week, big, 0, "t/a 8d 10 leased", "", ""},
		{"a pending clone past TTL", week, big, 0, "t/a 8d 10 pending", "", ""},
		{"a kept clone past TTL", week, big, 0, "t/a 8d 10 kept", "", ""},
		{"a clone past TTL that a container kept", week, big, 0, "t/a 8d 10 busy", "", ""},
		{"a clone past TTL that a container kept", week, big, 0, "t/a 8d 10 busy", "", ""},
		{"a clone past TTL whose eviction failed", week, big, 0, "t/a 8d 10 failed", "", ""},
		{"a clone past TTL with an upper", week, big, 0, "t/a 8d 10; upper u 1h 1", "", ""},
		{"a clone past TTL with a part that is held", week, big, 0, "t/a 8d 10; cache c 8d 1 busy", "", ""},
		{"a clone past TTL with a part whose eviction failed", week, big, 0, "t/a 8d 10; warm w 8d 1 failed", "ttl t/a", ""},
		{"a clone past TTL with a checkpoint whose eviction failed", week, big, 0, "t/a 8d 10; checkpoint d 8d 1 failed", "", ""},
		{"a clone past TTL with a checkpoint before its time", week, big, 0, "t/a 8d 10; tree x 8d 1 pinned; checkpoint d 1h 1", "", ""},
		{"a clone past TTL goes with its last checkpoint", week, big, 0, "t/a 8d 10; tree x 8d 1 pinned; checkpoint d 25h 1", "expired t/a/d, ttl t/a", ""},
		{"a new clone has been used when it was made", week, big, 0, "t/a 8d 10 new\n t/b 6d 10 new", "ttl t/a", ""},
		{"an unneeded layer within TTL", week, big, 0, "t/a 1h 10; tree x 6d 1; git g 6d 1", "", ""},
		{"an unneeded layer past TTL", week, big, 0, "t/a 1h 10; tree x 7d 1; git g 9d 1", "unneeded t/a/g, unneeded t/a/x", ""},
		{"a needed layer past TTL", week, big, 0, "t/a 1h 10; tree x 9d 1 needed; git g 9d 1 needed", "", ""},
		{"an unneeded layer past TTL under a workspace", week, big, 0, "t/a 1h 10; tree x 9d 1 pinned", "", ""},
		{"warm layers and caches past TTL stay with their clone", week, big, 0, "t/a 1h 10; warm w 9d 1; cache c 9d 1", "", ""},

		// The clock.
		{"what is late goes by the piece", week, big, 0, "t/a 900d 1\n t/b 901d 1\n t/c 902d 1", "ttl t/c", ""},
		{"checkpoints that are late likewise", week, big, 0, "t/a 1h 1; checkpoint d 900d 1; checkpoint e 901d 1", "expired t/a/e", ""},
		{"what came due of late goes at once", week, big, 0, "t/a 169h 1\n t/b 190h 1\n t/c 191h 1", "ttl t/c, ttl t/b, ttl t/a", ""},
		{"what lies in the future is now", max100, big, 0, "t/a -900d 60\n t/b 1h 60", "max_size t/b", ""},
		{"futures are alike", max100, big, 0, "t/a -1d 60\n t/b -900d 60", "max_size t/a", ""},

		// MAX_SIZE: the order of the stages, and where eviction ends.
		{"at the limit", max100, big, 0, "t/a 1h 50\n t/b 2h 50", "", ""},
		{"trash evicts nothing, because it goes", max100, big, 1000, "t/a 1h 50\n t/b 2h 50", "", ""},
		{"one byte above", max100, big, 0, "t/a 1h 50\n t/b 2h 51", "max_size t/b", ""},
		{"layers that nothing needs first", limit(func(l *Limits) { l.MaxSize = 70 }), big, 0, stages, "max_size t/held/old, max_size t/idle/old", ""},
		{"then warm layers and caches of idle clones", limit(func(l *Limits) { l.MaxSize = 45 }), big, 0, stages,
			"max_size t/held/old, max_size t/idle/old, max_size t/idle/g, max_size t/idle/w", ""},
		{"then idle clones", limit(func(l *Limits) { l.MaxSize = 30 }), big, 0, stages + "\n t/bare 1h 10",
			"max_size t/held/old, max_size t/idle/old, max_size t/idle/g, max_size t/idle/w, max_size t/idle/c, max_size t/bare", ""},
		{"then checkpoints", limit(func(l *Limits) { l.MaxSize = 20 }), big, 0, stages + "\n t/bare 1h 10",
			"max_size t/held/old, max_size t/idle/old, max_size t/idle/g, max_size t/idle/w, max_size t/idle/c, max_size t/bare, max_size t/idle/d", ""},
		{"and the clone after its last", limit(func(l *Limits) { l.MaxSize = 18 }), big, 0, stages,
			"max_size t/held/old, max_size t/idle/old, max_size t/idle/g, max_size t/idle/w, max_size t/idle/c, max_size t/idle/d, max_size t/idle", ""},
		{"no checkpoint in vain, and then it says what is missing", limit(func(l *Limits) { l.MaxSize = 10 }), big, 0, stages + "; upper u 1h 3 leased vx",
			"max_size t/held/old, max_size t/idle/old, max_size t/idle/g, max_size t/idle/w, max_size t/idle/c", "max_size 23"},
		{"no cache before its limit, no checkpoint before all caches", max100, big, 0, "t/a 1h 60; checkpoint d 23h 5\n o/b 1s 20; cache c 1s 25", "max_size o/b/c", ""},
		{"a clone goes with its own checkpoints before those of another", limit(func(l *Limits) { l.MaxSize = 60 }), big, 0,
			"t/a 1h 50; checkpoint a 3h 5\n t/b 1h 40; checkpoint b 2h 5", "max_size t/a/a, max_size t/a", ""},
		{"checkpoints only as far as the limit", max100, big, 0, "t/a 1h 81 leased; checkpoint a 1h 5; checkpoint b 2h 5; checkpoint c 3h 5; checkpoint d 4h 5", "max_size t/a/d", ""},
		{"down to the mark", max100, big, 0, "t/a 1h 81; git a 1h 5; git b 2h 5; git c 3h 5; git d 4h 5", "max_size t/a/d, max_size t/a/c, max_size t/a/b", ""},
		{"a clone does not go for the mark alone", max100, big, 0, "t/a 1h 49\n t/b 2h 50\n t/c 3h 2", "max_size t/c", ""},
		{"unless it does not overshoot it", max100, big, 0, "t/a 1h 49\n t/b 2h 44\n t/c 3h 5\n t/d 4h 4", "max_size t/d, max_size t/c", ""},
		{"least recently used within a stage", max100, big, 0, "t/a 2h 30\n t/b 4h 30\n t/c 3h 30\n t/d 1h 30", "max_size t/b", ""},
		{"ties by key", max100, big, 0, "t/c 2h 40\n t/a 2h 40\n t/b 2h 40", "max_size t/a", ""},
		{"ties in a clone by kind and ID", max100, big, 0, "t/a 0s 90; git z 2h 5; tree y 2h 5; tree x 2h 5", "max_size t/a/x, max_size t/a/y, max_size t/a/z", ""},
		{"a checkpoint that is in use stays, and none goes in vain", max100, big, 0, "t/a 1h 90; checkpoint d 2h 20 busy; checkpoint e 1h 5", "", "max_size 15"},
		{"a leased clone's warm layers and cache stay", max100, big, 0, "t/a 1h 90 leased; warm w 1h 10; cache c 1h 5", "", "max_size 5"},
		{"a kept clone's likewise", max100, big, 0, "t/a 1h 90 kept; warm w 1h 10; cache c 1h 5", "", "max_size 5"},
		{"a pinned warm layer stays", max100, big, 0, "t/a 1h 90 leased; warm w 1h 20 pinned", "", "max_size 10"},
		{"a needed layer stays with its clone", max100, big, 0, "t/a 1h 70 leased; tree x 9h 20 needed; upper u 1h 20", "", "max_size 10"},
		{"a clone just made stays", max100, big, 0, "t/a 1m 90 new\n t/b 30s 20", "max_size t/b", ""},
		{"a clone just made, nothing else", max100, big, 0, "t/a 1m 90 new\n t/b 1m 20 leased", "", "max_size 10"},
		{"a clone made a while ago", max100, big, 0, "t/a 6m 90 new\n t/b 30s 20", "max_size t/a", ""},
		{"a clone just mounted has no grace", max100, big, 0, "t/a 1m 90\n t/b 30s 20", "max_size t/a", ""},
		{"a clone larger than the limit goes first", max100, big, 0, "t/a 2h 101\n t/b 3h 99; checkpoint d 9h 1", "max_size t/a", ""},
		{"each that is", max100, big, 0, "t/a 2h 101\n t/b 1h 20\n t/c 3h 200\n t/d 9h 70", "max_size t/c, max_size t/a", ""},
		{"and then what else is too much", max100, big, 0, "t/a 2h 101\n t/b 3h 60\n t/c 4h 60", "max_size t/a, max_size t/c", ""},
		{"its checkpoints go before it, and no others", max100, big, 0,
			"t/a 2h 101; checkpoint d 2h 5; checkpoint e 3h 5; tree x 3h 5 pinned\n t/b 3h 50; checkpoint f 9h 5", "max_size t/a/e, max_size t/a/d, max_size t/a", ""},
		{"its needed layers are its own", max100, big, 0, "t/a 2h 50; tree x 2h 51 needed\n t/b 3h 99", "max_size t/a", ""},
		{"its caches are not", max100, big, 0, "t/a 2h 60; cache c 2h 60", "max_size t/a/c", ""},
		{"it goes by TTL", max100, big, 0, "t/a 8d 101\n t/b 3h 99", "ttl t/a", ""},
		{"between two mounts it stays, and evicts nobody", max100, big, 0,
			"t/a 59s 101; cache c 9h 99; warm w 9h 99\n t/b 3h 99", "", ""},
		{"likewise before the first", max100, big, 0, "t/a 59s 101 new\n t/b 3h 99", "", ""},
		{"and no longer than that", max100, big, 0, "t/a 1m 101 new\n t/b 3h 99", "max_size t/a", ""},
		{"when nobody has used it for a minute it goes", max100, big, 0, "t/a 1m 101; cache c 1s 99; warm w 1s 99\n t/b 3h 99", "max_size t/a", ""},
		{"in use it stays, and evicts nobody", max100, big, 0,
			"t/a 2h 101; upper u 2h 500 leased; cache c 9h 99; warm w 9h 99 pinned; tree x 9h 99 needed pinned\n t/b 3h 99", "", ""},
		{"its checkpoints and what nothing needs count all the same", max100, big, 0,
			"t/a 2h 101 leased; checkpoint d 2h 5; tree x 3h 5\n t/b 3h 95", "max_size t/a/x", ""},
		{"kept likewise", max100, big, 0, "t/a 2h 101; upper u 2h 50 kept\n t/b 3h 99", "", ""},
		{"with a checkpoint that is in use likewise", max100, big, 0, "t/a 2h 101; checkpoint d 2h 5 busy\n t/b 3h 99", "", ""},
		{"with a checkpoint that could not be evicted likewise", max100, big, 0, "t/a 2h 101; checkpoint d 2h 5 failed; checkpoint e 2h 1\n t/b 3h 99", "", ""},

		// SUBJECT_MAX_SIZE.
		{"a subject above its limit", subject100, big, 0, "a/1 1h 60\n a/2 2h 60\n b/1 9h 90", "subject_max_size a/2", ""},
		{"each subject on its own", subject100, big, 0, "a/1 1h 99\n b/1 2h 99\n c/1 3h 99", "", ""},
		{"two subjects above", subject100, big, 0, "b/1 1h 60\n a/1 1h 60\n a/2 2h 60\n b/2 2h 60", "subject_max_size a/2, subject_max_size b/2", ""},
		{"a subject's stages", subject100, big, 0, "a/1 1h 60; checkpoint d 1h 10\n a/2 2h 30; cache c 2h 15\n b/1 9h 90; checkpoint d 9h 9", "subject_max_size a/1/d, subject_max_size a/2/c", ""},
		{"a subject that holds too much", subject100, big, 0, "a/1 1h 60 leased; upper u 1h 60 leased vx\n b/1 2h 50", "", "subject_max_size 20"},
		{"a clone larger than its subject's limit", subject100, big, 0, "a/1 2h 101\n a/2 3h 60\n b/1 1h 101", "subject_max_size a/1, subject_max_size b/1", ""},
		{"that is in use", subject100, big, 0, "a/1 2h 101 leased; cache c 2h 70\n a/2 3h 60", "", ""},
		{"that was a moment ago", subject100, big, 0, "a/1 59s 101; cache c 2h 70\n a/2 3h 60", "", ""},
		{"that was made a minute ago, and never mounted", subject100, big, 0, "a/1 1m 101 new\n a/2 3h 60", "subject_max_size a/1", ""},
		{"that counts for all", limit(func(l *Limits) { l.SubjectMaxSize, l.MaxSize = 100, 160 }), big, 0, "a/1 59s 101\n b/1 3h 60", "max_size b/1", ""},
		{"a subject before all", limit(func(l *Limits) { l.SubjectMaxSize, l.MaxSize = 100, 150 }), big, 0,
			"a/1 1h 60\n a/2 2h 60\n b/1 9h 81\n c/1 8h 10", "subject_max_size a/2, max_size b/1", ""},
		{"TTL before all", max100, big, 0, "t/a 8d 50\n t/b 2h 60", "ttl t/a", ""},

		// MIN_FREE: bytes and inodes.
		{"enough is free", free10, space(1000, 100, 0, 0), 0, stages, "", ""},
		{"others have taken the space", free10, space(1000, 99, 0, 0), 0, stages, "min_free t/held/old, min_free t/idle/old", ""},
		{"what is in the trash is free", free10, space(1000, 50, 0, 0), 50, stages, "", ""},
		{"inodes", free10, space(1000, 500, 100, 9), 0, "t/a 1h 10/5; git d 1h 10/1; git e 2h 0/1", "min_free t/a/e, min_free t/a/d", ""},
		{"checkpoints for inodes, only as far as the limit", free10, space(1000, 500, 100, 9), 0, "t/a 1h 10/5; checkpoint d 1h 10/1; checkpoint e 2h 0/1", "min_free t/a/e", ""},
		{"a filesystem that counts no inodes", free10, space(1000, 500, 0, 0), 0, stages, "", ""},
		{"not enough to evict", free10, space(1000, 10, 0, 0), 0, "t/a 1h 50\n t/b 1h 500 leased", "min_free t/a", "min_free 40"},
		{"a checkpoint does not go in vain", free10, space(1000, 10, 0, 0), 0, "t/a 1h 50; checkpoint d 1h 10\n t/b 1h 20; tree x 1h 2\n o/hungry 1h 5 leased; upper u 1h 900 leased", "min_free t/b/x, min_free t/b", "min_free 68"},
		{"nor where more of it is held", free10, space(1000, 10, 0, 0), 0, "t/a 1h 100; checkpoint d 1h 10; checkpoint e 1h 10 busy", "", "min_free 90"},
		{"checkpoints after what was just made", free10, space(1000, 50, 0, 0), 0, "t/a 1m 110 new\n t/b 2s 20; checkpoint d 9h 30", "min_free t/a", ""},
		{"it goes if that helps", free10, space(1000, 10, 0, 0), 0, "t/a 1h 80; checkpoint d 1h 10\n o/hungry 1h 5 leased; upper u 1h 900 leased", "min_free t/a/d, min_free t/a", ""},
		{"what can't be reached in inodes likewise", free10, space(1000, 500, 100, 5), 0, "t/a 1h 500/2; checkpoint d 1h 10/2", "", "min_free 0"},
		{"a clone larger than MAX_SIZE that was just used goes for it, last", limit(func(l *Limits) { l.MinFree, l.MaxSize = 0.1, 100 }), space(1000, 10, 0, 0), 0,
			"t/a 59s 110; cache c 1m 1\n t/b 2s 20", "min_free t/a/c, min_free t/b, min_free t/a", ""},
		{"a clone just made goes for it, last", free10, space(1000, 50, 0, 0), 0, "t/a 1m 110 new\n t/b 2s 20", "min_free t/b, min_free t/a", ""},
		{"a leased one does not", free10, space(1000, 50, 0, 0), 0, "t/a 1m 110 leased\n t/b 2s 20 kept\n t/c 9h 9 pending\n t/e 9h 9 busy", "", "min_free 50"},
		{"work that nobody waits for goes for it, last, and a needed one does not", free10, space(1000, 50, 0, 0), 0, "t/a 9h 30 working\n t/b 2s 20\n t/c 9h 9 pending", "min_free t/b, min_free t/a", ""},
		{"work is no reason for MAX_SIZE", max100, big, 0, "t/a 9h 90 working\n t/b 1h 60\n t/c 2h 60", "max_size t/c, max_size t/b", ""},
		{"nor for TTL", week, big, 0, "t/a 8d 110 working", "", ""},
		{"work on a clone with a checkpoint goes on", free10, space(1000, 50, 0, 0), 0, "t/a 9h 200 working; checkpoint d 1h 1 busy", "", "min_free 50"},
		{"MAX_SIZE before MIN_FREE", limit(func(l *Limits) { l.MinFree, l.MaxSize = 0.1, 100 }), space(1000, 60, 0, 0), 0, "t/a 1h 60\n t/b 2h 60", "max_size t/b", ""},

		// Room.
		{"there is room", room50, space(1000, 50, 100, 5), 0, stages, "", ""},
		{"no room", room50, space(1000, 35, 100, 5), 0, stages, "enospc t/held/old, enospc t/idle/old", ""},
		{"no inodes", room50, space(1000, 500, 100, 4), 0, stages, "enospc t/held/old", ""},
		{"room of a filesystem that counts no inodes", room50, space(1000, 50, 0, 0), 0, stages, "", ""},
		{"not enough room", room50, space(1000, 10, 100, 5), 0, "t/a 1h 20\n t/b 1h 500 leased", "enospc t/a", "enospc 20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inv := scene(t, tt.scene)
			inv.Space, inv.Trash = tt.space, disk.Size{Bytes: tt.trash}
			p := Decide(inv, tt.lim)
			if got := strings.Join(words(p), ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			var missing []string
			for _, m := range p.Missing {
				missing = append(missing, fmt.Sprint(m.Reason, " ", m.Size.Bytes))
			}
			if got := strings.Join(missing, ", "); got != tt.missing {
				t.Errorf("missing %q, want %q", got, tt.missing)
			}
			var frees disk.Size
			for _, e := range p.Evictions {
				frees = frees.Add(e.Size)
				if e.Text == "" || e.Subject == "" || (e.ID == "") != (e.Kind == WholeClone) {
					t.Errorf("an eviction lacks its text, subject or ID: %+v", e)
				}
			}
			if p.Frees != frees {
				t.Errorf("the plan frees %v, its evictions %v", p.Frees, frees)
			}
			if (len(p.Holders) > 0) != (len(p.Missing) > 0) {
				t.Errorf("missing %v, holders %v", p.Missing, p.Holders)
			}
			if twice := Decide(inv, tt.lim); !reflect.DeepEqual(twice, p) {
				t.Errorf("a second call returns another plan: %v", twice)
			}
		})
	}
}

// TestOwnFilesCount checks that the plugin's own files count for MAX_SIZE, and that texts say so.
func TestOwnFilesCount(t *testing.T) {
	for _, tt := range []struct {
		own         int64
		scene, want string
		text        string
	}{
		{0, "t/a 1h 50\n t/b 2h 50", "", ""},
		{1, "t/a 1h 50\n t/b 2h 50", "max_size t/b", "the clones take 100 B and the plugin's own files 1 B, MAX_SIZE is 100 B"},
		{40, "t/a 1h 50\n t/b 2h 61", "max_size t/b", "takes 61 B, which is more than MAX_SIZE=100 B (with 40 B for the plugin's own files) on its own"},
		{40, "t/a 1h 50\n t/b 59s 61", "", ""},
		{200, "t/a 1h 50\n t/b 59s 1", "max_size t/a", "takes 50 B, which is more than MAX_SIZE=100 B (with 200 B for the plugin's own files) on its own"},
	} {
		inv := scene(t, tt.scene)
		inv.Space, inv.Own = big, disk.Size{Bytes: tt.own}
		p := Decide(inv, Limits{MaxSize: 100, CheckpointTTL: day})
		if got := strings.Join(words(p), ", "); got != tt.want || len(p.Missing) > 0 {
			t.Errorf("%+v: evicted %q, missing %v", tt, got, p.Missing)
		}
		if len(p.Evictions) > 0 && !strings.Contains(p.Evictions[0].Text, tt.text) {
			t.Errorf("%+v: the text %q", tt, p.Evictions[0].Text)
		}
		var all disk.Size
		for _, c := range inv.Clones {
			all = all.Add(c.Size)
		}
		if p.All.Bytes != all.Bytes+tt.own || p.Used.Bytes > p.All.Bytes {
			t.Errorf("%+v: all %v, used %v", tt, p.All, p.Used)
		}
	}
}

// TestAgain checks that a plan says when a clone that exceeds a limit on its own may go.
func TestAgain(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"t/a 1h 50":                             0,
		"t/a 1h 101":                            0, // goes now
		"t/a 20s 101\n t/b 50s 101\n t/c 1s 10": 10 * time.Second,
		"t/a 9h 101 leased":                     time.Minute,
		"t/a 9h 101 leased\n t/b 59s 200":       time.Second,
		"t/a 20s 101 new":                       40 * time.Second,
		"t/a 1m 101 new":                        0,
	} {
		inv := scene(t, text)
		inv.Space = big
		if got := Decide(inv, Limits{MaxSize: 100, CheckpointTTL: day}).Again; got != want {
			t.Errorf("%s: again after %v, want %v", text, got, want)
		}
	}
}

// TestOwnLimitOfASubject checks that the limit of a subject takes the place of the setting, and
// that texts name it.
func TestOwnLimitOfASubject(t *testing.T) {
	const text = "a/1 1h 60\n a/2 2h 60\n b/1 1h 60\n b/2 2h 60\n c/1 1h 300"
	for _, tt := range []struct {
		setting int64
		own     map[string]int64
		want    string
	}{
		{0, map[string]int64{"b": 100}, "b/2"},
		{100, map[string]int64{"b": 0}, "a/2 c/1"},
		{100, map[string]int64{"b": 130, "c": 300}, "a/2"},
		{0, map[string]int64{"c": 200, "unknown": 1}, "c/1"},
	} {
		inv := scene(t, text)
		inv.Space, inv.SubjectMaxSize = big, tt.own
		p := Decide(inv, Limits{SubjectMaxSize: tt.setting, CheckpointTTL: day})
		var got []string
		for _, e := range p.Evictions {
			got = append(got, e.Clone)
			if _, own := tt.own[e.Subject]; own != strings.Contains(e.Text, "its own max_size") {
				t.Errorf("%+v: the text %q", tt, e.Text)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tt.want || len(p.Missing) > 0 {
			t.Errorf("%+v: evicted %q, missing %v", tt, got, p.Missing)
		}
	}
}

// TestTexts checks the texts for people.
func TestTexts(t *testing.T) {
	inv := scene(t, "a/1 9d 90; checkpoint d 30h 5\n a/2 2d 2000 leased; tree x 8d 70; upper u 1h 1100 leased vwork\n b/1 2h 600")
	inv.Space = space(10_000, 100, 1000, 10)
	p := Decide(inv, Limits{TTL: 7 * day, CheckpointTTL: day, SubjectMaxSize: 1024, MaxSize: 2048, Grace: 10 * time.Minute, MinFree: .5, Room: disk.Size{Bytes: 9000, Inodes: 1}})
	var got []string
	for _, e := range p.Evictions {
		got = append(got, e.Text)
	}
	for _, m := range p.Missing {
		got = append(got, m.Text)
	}
	for _, l := range p.TooLarge {
		got = append(got, l.String())
	}
	got = append(got, Held(p.Holders))
	want := []string{
		"it ended longer ago than CHECKPOINT_TTL=24h0m0s",
		"nobody used it for longer than TTL=7 days",
		"nothing needed it for longer than TTL=7 days",
		"the clones take 3.6 KiB, MAX_SIZE is 2.0 KiB",
		"the clones take 3.6 KiB, MAX_SIZE is 2.0 KiB",
		"865 B and 14 inodes of 9.8 KiB and 1000 are free, MIN_FREE is 50%",
		"8.8 KiB and 1 inodes are needed, 865 B and 14 are free",
		`the clone of https://host/a/2 for subject "a" takes 2.0 KiB, which is more than SUBJECT_MAX_SIZE=1.0 KiB on its own: it is evicted when nobody has used it for 1m0s, and its next mount clones again; raise SUBJECT_MAX_SIZE, or make its volumes with filter=blob:none, depth or sparse`,
		`held by the clone of https://host/a/2 for subject "a" (2.0 KiB, in use by a container), what was written to volume "vwork" (1.1 KiB, in use by a container)`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHeldNamesTheLargest checks that an error does not list all volumes.
func TestHeldNamesTheLargest(t *testing.T) {
	var list []Holder
	for i := range 5 {
		list = append(list, Holder{Volume: fmt.Sprint("v", i), Size: disk.Size{Bytes: int64(i) << 30}, Held: Kept})
	}
	sortHolders(list)
	want := `held by what was written to volume "v4" (4.0 GiB, kept by its volume (mode=keep)), ` +
		`what was written to volume "v3" (3.0 GiB, kept by its volume (mode=keep)), what was written to volume "v2" (2.0 GiB, kept by its volume (mode=keep)), and 2 more`
	if got := Held(list); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Held(nil); got != "nothing that the plugin keeps can be freed" {
		t.Errorf("without holders: %s", got)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 20 << 30: "20.0 GiB", 3 << 40: "3.0 TiB",
		-2048: "-2.0 KiB", 1 << 62: "4.0 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// TestWords checks that each kind and hold has a word of its own, by which operators know it.
func TestWords(t *testing.T) {
	words := make(map[string]bool)
	for k := WholeClone; k <= Upper; k++ {
		words[k.String()] = true
	}
	for h := Free; h <= Working; h++ {
		words[h.String()] = true
	}
	if n := int(Upper) + 1 + int(Working) + 1; len(words) != n || words[Kind(Upper+1).String()] || words[Hold(Working+1).String()] {
		t.Errorf("%d words for %d kinds and holds: %v", len(words), n, words)
	}
}

// TestPlansAreBounded checks that a plan leaves the rest to the next plan, which has a newer
// inventory.
func TestPlansAreBounded(t *testing.T) {
	inv := Inventory{Now: now, Space: big}
	for i := range mostEvictions + 10 {
		inv.Clones = append(inv.Clones, Clone{Key: fmt.Sprintf("t/%06d", i), Subject: "t", Used: Stamp(now) - 3600, Mounted: true, Size: disk.Size{Bytes: 10}})
	}
	p := Decide(inv, Limits{MaxSize: 10})
	if len(p.Evictions) != mostEvictions || !p.More || len(p.Missing) != 0 {
		t.Errorf("%d evictions, more: %v, missing %v", len(p.Evictions), p.More, p.Missing)
	}
	inv.Clones = inv.Clones[mostEvictions:]
	if p = Decide(inv, Limits{MaxSize: 10}); len(p.Evictions) != 9 || p.More {
		t.Errorf("%d evictions, more: %v", len(p.Evictions), p.More)
	}
}
