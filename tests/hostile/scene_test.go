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

	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/daemon"
)

// scene is one attack against the plugin: a volume and a subject of its own.
type scene struct {
	*testing.T
	attack
	*trap
	plugin *plugin
	volume string
	leases []string
	said   strings.Builder // all that the plugin has answered
	// outcome is what the attacker got, in a word.
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

// call is a request of the engine; what is answered is kept.
func (s *scene) call(method string, request any) (map[string]any, error) {
	answer, err := s.plugin.call(method, request)
	if err != nil {
		s.Logf("%s: %.500q", method, err)
		fmt.Fprintln(&s.said, err)
	}
	if answer != nil {
		text, _ := json.Marshal(answer)
		fmt.Fprintln(&s.said, string(text))
		s.printable(method, answer)
	}
	return answer, err
}

// printable finds what would write to a terminal more than text, in an answer.
func (s *scene) printable(method string, value any) {
	s.Helper()
	switch value := value.(type) {
	case string:
		if strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			s.Errorf("%s answers with control characters: %.300q", method, value)
		}
	case map[string]any:
		for _, v := range value {
			s.printable(method, v)
		}
	case []any:
		for _, v := range value {
			s.printable(method, v)
		}
	}
}

// create makes the case's volume; the subject is the case's.
func (s *scene) create(options map[string]string) error {
	if _, ok := options["subject"]; !ok {
		options["subject"] = s.volume
	}
	_, err := s.call("VolumeDriver.Create", volume.CreateRequest{Name: s.volume, Options: options})
	return err
}

// mount gives a lease its workspace.
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

// clones are the directories of the case's subject.
func (s *scene) clones() string { return s.plugin.data("clones", s.volume) }

// finish ends the case's leases and its volume, and asserts that it held.
func (s *scene) finish() {
	s.Helper()
	s.call("VolumeDriver.Get", volume.GetRequest{Name: s.volume})
	if path := s.holds(s.clones()); path != "" {
		s.Errorf("the secret from outside is in %s", path)
	}
	for len(s.leases) > 0 {
		s.unmount(s.leases[len(s.leases)-1])
	}
	if _, err := s.call("VolumeDriver.Remove", volume.RemoveRequest{Name: s.volume}); err != nil {
		s.Errorf("remove: %v", err)
	}
	if err := daemon.Poll(s.reclaimed); err != nil {
		s.Errorf("not reclaimed: %v", err)
	}
	for effect, happened := range s.effects(s.T, s.said.String()) {
		if happened {
			s.Errorf("it %s\n%.2000s", effect, s.said.String())
		}
	}
	if err := s.plugin.alive(); err != nil {
		s.Errorf("the plugin is not alive: %v", err)
	}
	if strings.Contains(s.plugin.Log(), s.secret) {
		s.Errorf("the secret from outside is in the log")
	}
}

// reclaimed says what is left of the case besides the clone and its caches, and deletes its discards.
func (s *scene) reclaimed() error {
	discards, err := s.plugin.Admin.Discards(s.Context())
	if err != nil {
		return err
	}
	for _, d := range discards {
		if d.Subject == s.volume {
			if err := s.plugin.Admin.RemoveDiscard(s.Context(), d.ID); err != nil {
				return err
			}
		}
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

// untouched asserts that there is no clone, for what must be refused before it is tried.
func (s *scene) untouched() {
	s.Helper()
	if _, err := os.Lstat(s.clones()); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("it has left a clone: %v", err)
	}
}
