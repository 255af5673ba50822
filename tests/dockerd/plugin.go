package dockerd

import (
	"fmt"
	"os"
	"path/filepath"
)

// PluginName is the plugin's name.
const PluginName = "helmdeck/repos"

// Install creates the plugin of dir (config.json and rootfs/, as `make plugin` makes it) in the
// engine and enables it with the settings (NAME=value). MIN_FREE is 0 unless the settings change
// it, because tests must not depend on the free space of the machine's disk.
func (e *Engine) Install(dir string, settings ...string) error {
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err != nil {
		return fmt.Errorf("no plugin: run make plugin first: %w", err)
	}
	if _, err := e.Try("plugin", "create", PluginName, dir); err != nil {
		return err
	}
	if _, err := e.Try(append([]string{"plugin", "set", PluginName, "MIN_FREE=0"}, settings...)...); err != nil {
		return err
	}
	if _, err := e.Try("plugin", "enable", "--timeout", "120", PluginName); err != nil {
		return err
	}
	return e.SetPluginID()
}

// SetPluginID sets Plugin to the ID of the plugin in the engine, after the caller has installed it
// by other means.
func (e *Engine) SetPluginID() error {
	id, err := e.Try("plugin", "inspect", "--format", "{{.Id}}", PluginName)
	e.Plugin = id
	return err
}

// Data returns a path in the plugin's /data, as the host sees it.
func (e *Engine) Data(elem ...string) string {
	return e.Path(append([]string{"data/plugins", e.Plugin, "propagated-mount"}, elem...)...)
}
