package crash

import (
	"context"
	"fmt"
	"strings"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/testgit"
)

func init() {
	prepare := func(w *world) { w.must(w.create("pushing"), w.mount("pushing", "p1"), w.commitAside("pushing", "p1")) }
	scenarios = append(scenarios, scenario{
		name: "push", prepare: prepare, do: func(w *world) error { return w.pushAside("pushing") },
		points: []string{"quarantine/take/made", "quarantine/take/indexed", "quarantine/choose/checked", "quarantine/push/pushed"},
	}, scenario{
		name: "export of a bundle", prepare: prepare, do: func(w *world) error { return w.bundleAside("pushing") },
		points: []string{"outbound/bundle/made"},
	})
}

// commitAside makes a commit on the branch side of a workspace, without changing its files.
func (w *world) commitAside(volume, id string) error {
	dir := w.leases[lease{volume, id}].dir
	tree, err := testgit.Run(testgit.Command(dir, "commit-tree", "-p", "HEAD", "-m", "aside", "HEAD^{tree}"))
	if err != nil {
		return err
	}
	_, err = testgit.Run(testgit.Command(dir, "update-ref", "refs/heads/side", tree))
	return err
}

// workspace returns the ID of the only workspace of a volume.
func (w *world) workspace(volume string) (string, error) {
	all, err := w.d.Admin.Workspaces(context.Background(), api.Filter{Volume: volume})
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("volume %q has %d workspaces", volume, len(all))
	}
	if err != nil {
		return "", err
	}
	return all[0].ID, nil
}

// pushAside pushes the branch side. If the plugin says that it is done, the remote has it.
func (w *world) pushAside(volume string) error {
	id, err := w.workspace(volume)
	if err != nil {
		return err
	}
	res, err := w.d.Admin.Outbound(id).Push(context.Background(), api.Push{Branch: "side"}, nil)
	if err != nil {
		return err
	}
	got, err := testgit.Run(testgit.Command(server.Path(w.repo), "rev-parse", "refs/heads/side"))
	if err == nil && got != res.NewCommit {
		err = fmt.Errorf("the remote is at %s, want %s", got, res.NewCommit)
	}
	return err
}

// bundleAside exports all branches with new commits.
func (w *world) bundleAside(volume string) error {
	id, err := w.workspace(volume)
	if err != nil {
		return err
	}
	var head strings.Builder
	_, _, err = w.d.Admin.Outbound(id).Bundle(context.Background(), api.Bundle{}, &head)
	if err == nil && !strings.Contains(head.String(), " refs/heads/side\n") {
		err = fmt.Errorf("the bundle begins with %.200q", head.String())
	}
	return err
}
