package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/docker/go-plugins-helpers/volume"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/wait"
)

// scene is one attack against the plugin, with its own volume and subject.
type scene struct {
	*testing.T
	attack
	*trap
	plugin *plugin
	volume string
	leases []string
	tree   string          // where the volume is mounted, in the group handout
	said   strings.Builder // all answers of the plugin
	// outcome is the result for the attacker, in one word.
	outcome string
}

func newScene(t *testing.T, a attack) *scene {
	t.Helper()
	s := &scene{T: t, attack: a, plugin: roomy, volume: a.group + "-" + a.name}
	if a.on != nil {
		s.plugin = a.on()
	}
	s.trap = newTrap(t, filepath.Join(scratch, "traps", s.volume), a.prepare)
	return s
}

// call calls a method as the engine does, and keeps the answer.
func (s *scene) call(method string, request any) (map[string]any, error) {
	answer, err := s.plugin.call(method, request)
	if err != nil {
		s.Logf("%s: %.500q", method, err)
		fmt.Fprintln(&s.said, err)
	}
	if answer != nil {
		text, _ := json.Marshal(answer)
		fmt.Fprintln(&s.said, string(text))
		s.wantPrintable(method, answer)
	}
	return answer, err
}

// wantPrintable checks that no string in an answer has control characters, which could control a
// terminal.
func (s *scene) wantPrintable(method string, value any) {
	s.Helper()
	switch value := value.(type) {
	case string:
		if strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			s.Errorf("%s answers with control characters: %.300q", method, value)
		}
	case map[string]any:
		for _, v := range value {
			s.wantPrintable(method, v)
		}
	case []any:
		for _, v := range value {
			s.wantPrintable(method, v)
		}
	}
}

// create creates the case's volume, with the case's subject unless the options name another.
func (s *scene) create(options map[string]string) error {
	if _, ok := options["subject"]; !ok {
		options["subject"] = s.volume
	}
	_, err := s.call("VolumeDriver.Create", volume.CreateRequest{Name: s.volume, Options: options})
	return err
}

// mount mounts the volume for a mount ID.
func (s *scene) mount(id string) (string, error) {
	answer, err := s.call("VolumeDriver.Mount", volume.MountRequest{Name: s.volume, ID: id})
	if err != nil {
		return "", err
	}
	s.leases = append(s.leases, id)
	tree, _ := answer["Mountpoint"].(string)
	return tree, nil
}

func (s *scene) mustMount(id string) string {
	s.Helper()
	tree, err := s.mount(id)
	if err != nil {
		s.Fatalf("mount: %v", err)
	}
	return tree
}

func (s *scene) unmount(id string) {
	s.Helper()
	if _, err := s.call("VolumeDriver.Unmount", volume.UnmountRequest{Name: s.volume, ID: id}); err != nil {
		s.Errorf("unmount: %v", err)
	}
	s.leases = s.leases[:len(s.leases)-1]
}

// clones returns the directory of the clones of the case's subject.
func (s *scene) clones() string { return s.plugin.data("clones", s.volume) }

// finish ends the case's mounts, removes its volume, and checks that the plugin held.
func (s *scene) finish() {
	s.Helper()
	s.call("VolumeDriver.Get", volume.GetRequest{Name: s.volume})
	if path := s.findSecret(s.clones()); path != "" {
		s.Errorf("the secret from outside is in %s", path)
	}
	for len(s.leases) > 0 {
		s.unmount(s.leases[len(s.leases)-1])
	}
	if _, err := s.call("VolumeDriver.Remove", volume.RemoveRequest{Name: s.volume}); err != nil {
		s.Errorf("remove: %v", err)
	}
	if err := wait.Until(s, s.cleanedUp); err != nil {
		s.Errorf("not cleaned up: %v", err)
	}
	for effect, happened := range s.effects(s.T, s.said.String()) {
		if happened {
			s.Errorf("the attack had the effect %q\n%.2000s", effect, s.said.String())
		}
	}
	if err := s.plugin.alive(); err != nil {
		s.Errorf("the plugin is not alive: %v", err)
	}
	if strings.Contains(s.plugin.Log(), s.secret) {
		s.Errorf("the secret from outside is in the log")
	}
}

// cleanedUp deletes the case's checkpoints, and returns an error if more than the clone and its caches
// is left of the case.
func (s *scene) cleanedUp() error {
	checkpoints, err := s.plugin.Admin.Checkpoints(s.Context(), api.Filter{})
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range checkpoints {
		if d.Subject == s.volume { // one on which others stand goes after these, the next time
			errs = append(errs, s.plugin.Admin.RemoveCheckpoint(s.Context(), d.ID))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	points, err := overlay.Mounts(s.plugin.data())
	if err != nil {
		return err
	}
	for _, p := range points {
		if strings.HasPrefix(p.Path, s.clones()+"/") {
			return fmt.Errorf("%s is mounted", p.Path)
		}
	}
	left, err := filepath.Glob(filepath.Join(s.clones(), "*", "workspaces", "*"))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s is left", left[0])
	}
	return err
}

// wantNoClone checks that no clone was created, because the plugin must refuse the options before
// it uses them.
func (s *scene) wantNoClone() {
	s.Helper()
	if _, err := os.Lstat(s.clones()); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("a clone was created: %v", err)
	}
}
