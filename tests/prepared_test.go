package tests

import (
	"regexp"
	"testing"
)

// mark is what a container with publish=marked does so that others get what it leaves.
const mark = "touch .git/helmdeck-publish"

// Others find what a setup leaves if it made the mark, and then what is there when its container has ended. They never
// find anything that is neither in a warm directory nor in a cache.
func TestPrepared(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	with := func(publish string) string {
		return mount("", "repo="+r.url, "subject="+subject(t), "warm=node_modules", "publish="+publish)
	}
	const find = `ls -d outside dist .git/x 2>/dev/null || true; git status --porcelain; cat .git/hdcache/mine/* 2>/dev/null || true; ` + packages
	run := func(publish, script string) error {
		_, err := e.Try(shArgs(with(publish), script)...)
		return err
	}
	killed := func(publish, script string) error {
		c := e.sleeper(t, with(publish))
		c.sh(t, script)
		c.remove(t)
		return nil
	}
	for _, step := range []struct {
		what    string
		run     func(publish, script string) error
		publish string
		script  string
		fails   bool
		want    string // a regular expression
	}{
		{"a setup that fails before there is a state", run, "marked", "mkdir node_modules .git/hdcache/mine; echo half >node_modules/a; echo half >.git/hdcache/mine/a; false; " + mark, true, "none"},
		{"a setup", run, "marked", "mkdir node_modules .git/hdcache/mine; echo 1 >node_modules/a; echo cached >.git/hdcache/mine/a; " + mark, false, "cached\n./a:1"},
		{"one that fails half-way", run, "marked", "rm node_modules/a; echo half >node_modules/b; echo half >.git/hdcache/mine/b; false; " + mark, true, "cached\n./a:1"},
		{"one that is killed half-way", killed, "marked", "rm node_modules/a; echo half >node_modules/b; echo half >.git/hdcache/mine/b", false, "cached\n./a:1"},
		{"one that writes elsewhere too", run, "marked", "echo 2 >node_modules/a; mkdir dist; echo x | tee outside dist/x .git/x >>README.md; " + mark, false, "cached\n./a:2"},
		{"one that leaves a process", run, "marked", `(i=0; while :; do i=$((i+1)); echo $i >node_modules/.new; mv node_modules/.new node_modules/b; done) >/dev/null 2>&1 &
			until [ -e node_modules/b ]; do :; done; echo 3 >node_modules/a; ` + mark, false, `cached\n(./.new:(\d+)?\n)?./a:3\n./b:\d+`},
		{"one that goes on after the mark", run, "marked", mark + "; rm -f node_modules/b node_modules/.new; echo 4 >node_modules/a", false, "cached\n./a:4"},
		{"one that fails after the mark", run, "marked", "echo 5 >node_modules/a; " + mark + "; false", true, "cached\n./a:5"},
		{"one that is killed after the mark", killed, "marked", "echo 6 >node_modules/a; " + mark, false, "cached\n./a:6"},
		{"a pull request", run, "never", `for i in $(seq 2000); do echo evil >node_modules/$i; echo evil >.git/hdcache/mine/$i; done
			echo evil | tee node_modules/a .git/hdcache/mine/a outside >README.md; ` + mark, false, "cached\n./a:6"},
		{"a pull request that is killed", killed, "never", "rm -rf node_modules .git/hdcache/*; " + mark, false, "cached\n./a:6"},
	} {
		if err := step.run(step.publish, step.script); (err != nil) != step.fails {
			t.Errorf("%s fails: %v, want %v: %v", step.what, err != nil, step.fails, err)
		}
		e.awaitPublished(t, subject(t))
		if got := e.sh(t, with("never"), find); !regexp.MustCompile("^" + step.want + "$").MatchString(got) {
			t.Errorf("after %s: got %q, want %q", step.what, got, step.want)
		}
	}
	e.awaitReclaimed(t, subject(t))
}
