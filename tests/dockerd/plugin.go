package dockerd

import (
	"fmt"
	"os"
	"path/filepath"
)

// PluginName is the plugin's name.
const PluginName = "helmdeck/repos"

// Install creates the plugin of dir (config.json and rootfs/, as `make plugin` makes it) in the engine and enables it with
// the settings (NAME=value). MIN_FREE is 0 unless they say otherwise: how full this machine's disk is, is no part of a
// test.
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
	return e.Installed()
}

// Installed takes the ID of a plugin that the caller has installed.
func (e *Engine) Installed() error {
	id, err := e.Try("plugin", "inspect", "--format", "{{.Id}}", PluginName)
	e.Plugin = id
	return err
}

// Data is a path of the plugin's /data, as the host sees it.
func (e *Engine) Data(elem ...string) string {
	return e.Path(append([]string{"data/plugins", e.Plugin, "propagated-mount"}, elem...)...)
}
