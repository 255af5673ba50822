package checkpoints

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/wait"
)

// tool is a program that works in a loop. Both scripts are of sh. loop writes the number of each step
// that is done to the beginning of the descriptor 3; $SEED is a number. In check, $ACKED is the number of the last one; it
// prints what it found.
type tool struct {
	name, loop, check string
	uid               int
}

// TestPrograms: a checkpoint with a pause is, file by file, what a kill at that moment leaves, and what the program has said
// to be done is in it, whole.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	onEach(t, func(w *world) {
		random := rand.New(rand.NewPCG(*seed, 2))
		w.Logf("-rounds %d -seed %d", *rounds, *seed)
		for round := range max(2, *rounds/10) {
			for _, tool := range tools {
				w.killed(fmt.Sprintf("%s, round %d", tool.name, round), tool, random)
			}
		}
	})
}

// killed makes a checkpoint of a workspace while a tool works in it, kills the tool in the pause, and compares.
func (w *world) killed(what string, tool tool, random *rand.Rand) {
	w.Helper()
	v := w.start("uid", fmt.Sprint(tool.uid), "gid", fmt.Sprint(tool.uid))
	group := newFreezer(w.T)
	defer group.kill()
	acked, err := os.Create(filepath.Join(w.TempDir(), "acked"))
	if err == nil {
		_, err = acked.WriteString("       0")
	}
	if err != nil {
		w.Fatal(err)
	}
	defer acked.Close()
	cmd, out := group.command(v.dir, tool.uid, tool.uid, "sh", "-ec", tool.loop)
	cmd.ExtraFiles, cmd.Env = []*os.File{acked}, append(cmd.Env, fmt.Sprint("SEED=", random.Uint32N(1000)))
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	step := func() (n int) {
		w.Helper()
		text, err := os.ReadFile(acked.Name())
		for before := []byte(nil); err == nil && !bytes.Equal(before, text); { // a read beside a write may have parts of both
			before = text
			text, err = os.ReadFile(acked.Name())
		}
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if err != nil {
			w.Fatal(err)
		}
		return n
	}
	reach := func(n int) {
		w.Helper()
		if err := wait.Until(w, func() error {
			select {
			case err := <-ended:
				return wait.Final(fmt.Errorf("it has ended: %w\n%s", err, out))
			default:
			}
			if got := step(); got < n {
				return fmt.Errorf("it has done %d steps", got)
			}
			return nil
		}); err != nil {
			w.Fatalf("%s: %v", what, err)
		}
	}
	reach(1 + random.IntN(20))
	d := w.draft(v)
	reach(step() + 1 + random.IntN(3)) // a step has just been done
	group.freeze()
	w.catchUp(d)
	group.kill()
	<-ended
	done := step()
	fork := w.start("from", w.keep(d).ID)
	killed := w.describe(v.dir)
	for name := range killed { // git's are gone in what begins with a checkpoint
		if strings.HasPrefix(name, ".git/") && strings.HasSuffix(name, ".lock") {
			delete(killed, name)
		}
	}
	got := w.describe(fork.dir)
	for name, line := range killed {
		// The time of a directory that had a lock is that of its removal.
		if strings.HasPrefix(name, ".git") && strings.HasPrefix(line, "mode 4") && got[name] != "" {
			killed[name] = got[name]
		}
	}
	w.same(what, killed, fork.dir)
	check, found := group.command(fork.dir, tool.uid, tool.uid, "sh", "-ec", tool.check)
	check.Env = append(check.Env, fmt.Sprint("ACKED=", done))
	if err := check.Run(); err != nil {
		w.Fatalf("%s: after %d steps: %v\n%s", what, done, err, found)
	}
	w.Logf("%s: %d steps: %s", what, done, strings.TrimSpace(found.String()))
	w.end(fork)
	w.end(v)
	w.remove(kept)
}

var tools = []tool{
	{name: "SQLite with a WAL", loop: "MODE=wal\n" + sqlite, check: sqliteCheck},
	{name: "SQLite with a journal", loop: "MODE=delete\n" + sqlite, check: sqliteCheck, uid: 1000},
	{name: "git", loop: git, check: gitCheck, uid: 1000},
}

// sqlite commits transactions of five rows, which are more than its cache, now and then.
const sqlite = `
exec /usr/bin/python3 -c '
import os, random, sqlite3, sys
random.seed(int(sys.argv[2]))
c = sqlite3.connect("db", isolation_level=None)
c.execute("pragma journal_mode=" + sys.argv[1])
c.execute("pragma cache_size=20")
c.execute("pragma wal_autocheckpoint=50")
c.execute("create table t (n integer, part integer, pad blob, primary key (n, part))")
n = 0
while True:
    n += 1
    c.execute("begin")
    for part in range(5):
        c.execute("insert into t values (?, ?, ?)", (n, part, os.urandom(random.choice([10, 5000, 60000]))))
    c.execute("update t set pad = ? where n = ?", (os.urandom(3000), random.randint(1, n)))
    c.execute("delete from t where n < ?", (n - 200,))
    c.execute("commit")
    os.pwrite(3, b"%8d" % n, 0)
' $MODE $SEED`

const sqliteCheck = `
test -s db
exec /usr/bin/python3 -c '
import sqlite3, sys
acked = int(sys.argv[1])
c = sqlite3.connect("db")
whole = c.execute("pragma integrity_check").fetchall()
assert whole == [("ok",)], whole
rows = c.execute("select n, count(*) from t group by n order by n").fetchall()
last = rows[-1][0]
assert acked <= last <= acked + 1, last
assert rows == [(n, 5) for n in range(max(1, last - 200), last + 1)], rows
print("has", last)
' $ACKED`

// git commits, rebases and collects garbage. It says in the middle of a rebase that the commit before it is done, so that
// many pauses are there. An interrupted rebase has its state in .git/rebase-merge.
const git = `
git() { command git -c user.name=u -c user.email=u@example.com -c gc.autoDetach=false -c core.fsync=none "$@" >/dev/null 2>&1; }
git checkout -B work
n=0
while :; do
	n=$((n + 1))
	echo $n >"file$((n % 7))"
	echo $n >>log$n
	git add -A
	git commit -m "step $n"
	done="/usr/bin/python3 -c 'import os; os.pwrite(3, b\"%8d\" % $n, 0)'"
	if [ $n -gt 3 ] && [ $(((n + SEED) % 3)) -gt 0 ]; then
		git rebase --force-rebase -x "$done" HEAD~3
	else
		eval "$done"
		git gc --prune=now
	fi
done`

// gitCheck aborts an interrupted rebase. If one is continued after a kill, git 2.39 can leave out the commit at which it was,
// and it does not abort one with a file that it wrote and had not added yet.
const gitCheck = `
git() { command git -c user.name=u -c user.email=u@example.com "$@"; }
git fsck --strict --no-progress --no-dangling
how=whole
if [ -d .git/rebase-merge ] || [ -d .git/rebase-apply ]; then
	git reset --quiet --hard
	git clean --quiet -ffdx
	git rebase --abort
	how='a rebase was aborted'
fi
git status >/dev/null
git log --format=%s >/tmp/subjects.$$
n=0
while [ $n -lt $ACKED ]; do
	n=$((n + 1))
	grep -qx "step $n" /tmp/subjects.$$ || { echo "step $n is missing ($how)"; git log --oneline --all | head -n 30; exit 1; }
done
rm /tmp/subjects.$$
git fsck --strict --no-progress --no-dangling
echo "$how"`
