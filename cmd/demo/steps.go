package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// createVolume makes the volume and starts the first container with it.
func (d *demo) createVolume(ctx context.Context) error {
	title("1. A volume for a repository and a ref")
	say(`The plugin asks the remote whether the repository and the ref exist. If it has no clone of the repository yet, it
begins to clone in the background.`)
	args := []string{"volume", "create", "--driver", "helmdeck/repos"}
	for _, option := range d.options() {
		args = append(args, "--opt", option)
	}
	begin := time.Now()
	if _, err := d.show(ctx, append(args, volumeName)...); err != nil {
		return err
	}
	say("\nThe first container waits for the clone. .git/helmdeck.json says what it got:")
	out, err := d.showUntilCloned(ctx, d.runArgs(mount(volumeName), printStamp)...)
	d.cold = time.Since(begin)
	if err != nil {
		return err
	}
	s, err := parseStamp(out)
	if err != nil {
		return err
	}
	d.reused = s.Reused
	switch {
	case d.reused && d.sample != nil && d.sample.clones() > 0:
		return errors.New(".git/helmdeck.json says that the clone was reused, but the git server has served a clone")
	case d.reused:
		checked("reused: true: the clone of an earlier run exists, nothing was cloned.")
	case d.sample != nil && d.sample.clones() != 1:
		return fmt.Errorf("the git server has served %d clones, want one", d.sample.clones())
	default:
		checked("reused: false: it was cloned, in %s.", seconds(d.cold))
	}
	return nil
}

// showUntilCloned is show for a command that may have to wait for a clone. It repeats the command,
// because a large clone takes longer than docker waits for a mount.
func (d *demo) showUntilCloned(ctx context.Context, args ...string) (string, error) {
	for {
		out, err := d.show(ctx, args...)
		if err == nil || !strings.Contains(err.Error(), "continues in the background") || ctx.Err() != nil {
			return out, err
		}
		say("%s\n\nThe same command again:", indent(err.Error()))
	}
}

// startTwo starts two containers with one volume concurrently.
func (d *demo) startTwo(ctx context.Context) error {
	title("2. Two containers at the same time")
	say("Both mount the same volume. Each gets its own checkout.")
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, name := range []string{first, second} {
		args := d.startArgs(name)
		d.print(args...)
		both.Go(func() { _, errs[i] = d.quiet(ctx, args...) })
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	say("\nThe volume now has this Status:")
	out, err := d.show(ctx, "volume", "inspect", volumeName)
	if err != nil {
		return err
	}
	var volumes []struct {
		Status struct {
			State, Commit string
			Reused        bool
			Leases        []struct{ ID string }
		}
	}
	if err := json.Unmarshal([]byte(out), &volumes); err != nil || len(volumes) != 1 {
		return fmt.Errorf("docker volume inspect shows %d volumes: %w", len(volumes), err)
	}
	status := volumes[0].Status
	if len(status.Leases) != 2 || status.Commit == "" || !status.Reused {
		return fmt.Errorf("status: %d leases, commit %q, reused %v; want 2 leases of a reused clone at a commit", len(status.Leases), status.Commit, status.Reused)
	}
	checked("two leases: each of the two containers holds its own workspace. state: %s.", status.State)
	return nil
}

// change damages the checkout of the first container, and checks the second one.
func (d *demo) change(ctx context.Context) error {
	if d.image.git {
		title("3. The first container commits, and damages its checkout")
	} else {
		title("3. The first container damages its checkout")
	}
	d.mark = time.Now().Format("20060102-150405.000000000")
	commit := []string{"echo mine > demo.txt"}
	if d.image.git {
		commit = append(commit, "git add --force demo.txt",
			"git -c user.name=Demo -c user.email=demo@example.com commit --quiet --message mine")
	}
	if _, err := d.script(ctx, first, commit...); err != nil {
		return err
	}
	say("\nThe dependency caches are in .git/hdcache, which all containers of this clone share. It leaves a file there:")
	if _, err := d.script(ctx, first, "echo "+d.mark+" > .git/hdcache/pip/demo-mark"); err != nil {
		return err
	}
	say("\nThen it deletes everything, and adds a new file:")
	damage := []string{"rm -rf *", "echo left > rubbish.txt", "ls"}
	clean := []string{"test ! -e demo.txt", "test ! -e rubbish.txt", "ls | wc -l"}
	if d.image.git {
		damage = append(damage, "git log --oneline --max-count 2", "git status --short | wc -l")
		clean = append(clean[:2], "git log --oneline --max-count 1", "git status")
	}
	if _, err := d.script(ctx, first, damage...); err != nil {
		return err
	}
	say("\nThe second container, which has been running the whole time:")
	if _, err := d.script(ctx, second, clean...); err != nil {
		return fmt.Errorf("the second container sees the first one's files: %w", err)
	}
	if err := d.checkClean(func(script string) (string, error) {
		return d.quiet(ctx, "exec", "--workdir", "/w", second, "sh", "-euc", script)
	}); err != nil {
		return fmt.Errorf("the second container: %w", err)
	}
	if d.image.git {
		checked("it has neither the commit nor the files nor the deletions of the first one: its checkout is clean.")
	} else {
		checked("it has neither the files nor the deletions of the first one.")
	}
	return nil
}

// checkClean checks that HEAD of a checkout is the commit in .git/helmdeck.json, and that nothing
// is changed. run runs a script in the checkout.
func (d *demo) checkClean(run func(script string) (string, error)) error {
	script := "test ! -e demo.txt\ntest ! -e rubbish.txt\ntest -n \"$(ls)\"\n" + printStamp
	if d.image.git {
		script += "\necho\necho ---\ngit rev-parse HEAD\ngit status --porcelain"
	}
	out, err := run(script)
	if err != nil {
		return fmt.Errorf("the checkout has files of another container, or lacks its own: %w", err)
	}
	text, state, _ := strings.Cut(out, "---\n")
	s, err := parseStamp(text)
	if err != nil {
		return err
	}
	if d.image.git && state != s.Commit {
		return fmt.Errorf("git says %q, want a clean checkout of %s", state, s.Commit)
	}
	return nil
}

// endBoth ends the two containers.
func (d *demo) endBoth(ctx context.Context) error {
	title("4. Both containers end")
	say("Their workspaces end with them, in an instant even after many changes. For a day, changes that were not pushed can be restored. The clone stays.")
	if _, err := d.show(ctx, "rm", "--force", first, second); err != nil {
		return err
	}
	out, err := d.quiet(ctx, "volume", "inspect", "--format", "{{json .Status.leases}}", volumeName)
	if err != nil {
		return err
	}
	if out != "[]" {
		return fmt.Errorf("both containers have ended, but the volume has leases: %s", out)
	}
	checked("the volume has no more leases.")
	return nil
}

// startThird starts a third container, which finds a clean checkout and the first one's cache.
func (d *demo) startThird(ctx context.Context) error {
	title("5. A third container")
	look := "ls | wc -l"
	if d.image.git {
		look = "git status"
	}
	out, err := d.show(ctx, d.runArgs(mount(volumeName), look, "cat .git/hdcache/pip/demo-mark", printStamp)...)
	if err != nil {
		return err
	}
	if !strings.Contains(out, d.mark+"\n") {
		return fmt.Errorf("the third container does not find the first one's text %q in .git/hdcache", d.mark)
	}
	_, text, _ := strings.Cut(out, d.mark+"\n")
	s, err := parseStamp(text)
	if err != nil {
		return err
	}
	if !s.Reused {
		return errors.New("the third container's checkout says reused: false")
	}
	// Use another container, which also removes the mark, because the cache belongs to the user.
	if err := d.checkClean(func(script string) (string, error) {
		return d.quiet(ctx, d.runArgs(mount(volumeName), "rm .git/hdcache/pip/demo-mark", script)...)
	}); err != nil {
		return fmt.Errorf("the third container: %w", err)
	}
	if d.image.git {
		checked("it has a clean checkout, reused: true, and the first one's cache.")
	} else {
		checked("it has none of the first one's changes, reused: true, and the first one's cache.")
	}
	return nil
}

// withoutVolume runs a container in one line.
func (d *demo) withoutVolume(ctx context.Context) error {
	title("6. The same in one line, without creating a volume first")
	say("docker run creates an anonymous volume and removes it at the end. This neither creates nor removes the clone.")
	out, err := d.show(ctx, d.runArgs(d.anonymousMount(), printStamp)...)
	if err != nil {
		return err
	}
	s, err := parseStamp(out)
	if err != nil {
		return err
	}
	if !s.Reused {
		return errors.New("its checkout says reused: false, although the clone exists")
	}
	if _, err := d.quiet(ctx, "volume", "inspect", s.Volume); err == nil {
		return fmt.Errorf("the anonymous volume %s still exists", s.Volume)
	}
	checked("reused: true, and the anonymous volume is gone.")
	if d.sample != nil {
		want, text := 1, "one clone"
		if d.reused {
			want, text = 0, "no clone"
		}
		if got := d.sample.clones(); got != want {
			return fmt.Errorf("the git server has served %d clones in this demo, want %d", got, want)
		}
		checked("the git server has served %s so far, and has answered %d times where %s is: the plugin asks when a volume is created, and at its mounts later than ten seconds after that.", text, d.sample.refRequests(), d.ref)
	}
	return nil
}

// nextSteps prints commands for the user's own repository.
func (d *demo) nextSteps() {
	title("Continue with your own repository")
	src := d.source
	if d.sample != nil {
		src = source{repo: "https://github.com/you/project"}
	}
	var create, env string
	for _, option := range src.options() {
		create += " --opt " + quote(option)
		name, value, _ := strings.Cut(option, "=")
		env += strings.ToUpper(name) + "=" + quote(value) + " "
	}
	image := quote(d.image.name)
	var flags string
	for _, flag := range d.image.flags {
		flags += " " + quote(flag)
	}
	say("The plugin stays installed, and so does the clone. The demo's containers and volumes are removed.\n")
	say("$ docker volume create --driver helmdeck/repos%s work", create)
	say("$ docker run --rm -it --mount %s --workdir /w%s %s sh", mount("work"), flags, image)
	say("$ docker run --rm -it --mount %s --workdir /w%s %s sh", quote(src.anonymousMount()), flags, image)
	say("$ docker volume inspect work")
	say("$ %sIMAGE=%s docker-compose -f examples/compose.yaml up     # or docker compose", env, image)
	say("\nTo uninstall: make uninstall, which says what it deletes.")
	if d.image.name == imageName {
		say("The demo's image: docker image rm %s", imageName)
	}
}
