package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testpage"
)

// settingNotes has what docs/reference/settings.md says beyond the descriptions of config.json.
var settingNotes = map[string]string{
	"MOUNT_WAIT":           "Its work goes on in the background. The engine itself waits for two minutes at most",
	"WORK_TIMEOUT":         "The time counts once the work runs, not while it waits for its turn",
	"FETCH_TIMEOUT":        "The time counts once the fetch runs, even if the remote keeps sending",
	"FETCH_CPU_TIME":       "That of all its threads counts. The ten million objects of Linux take some ten minutes. A larger history may need a larger `FETCH_TIMEOUT` too",
	"ASK_TIMEOUT":          "A mount asks, unless `refresh` says otherwise. [What is asked](../git.md#refs)",
	"GIT_MEMORY":           "The processes that check out have the same limit. [Which repositories need more](../operations/sizing.md#large-repositories)",
	"SIZE_FACTOR":          "With `2`, a hostile repository or remote can also take twice as much memory and disk. [The limits](../operations/sizing.md#large-repositories)",
	"HTTP_POST_BUFFER":     "A process of git takes as much memory meanwhile, and there are at most 32 pushes at a time. [Pushes](../how-to/push.md)",
	"KEEP_READY":           "[In advance](../how-to/after-a-push.md), so that a mount after a push is as fast as any",
	"TTL":                  "With `0` it stays until its space is needed",
	"MAX_SIZE":             "With caches, workspaces, checkpoints, and what is being deleted",
	"MIN_FREE":             "Whoever uses the rest",
	"SUBJECT_MAX_LEASES":   "One more is an error that says which volumes have them",
	"SWEEP_INTERVAL":       "It also looks when something has grown or the disk gets full",
	"WORKSPACE_WARN_SIZE":  "`docker volume inspect` names it too",
	"WORKSPACE_SIZE":       "Needs project quotas: [hard limits](../operations/sizing.md#hard-limits)",
	"WORKSPACE_MAX_SIZE":   "Also what a workspace may hold if neither its volume nor `WORKSPACE_SIZE` says how much",
	"WORKSPACE_MAX_INODES": "Likewise for `WORKSPACE_INODES`",
	"PROJECT_IDS":          "Two installations on one filesystem need ranges of their own",
	"PUSH_MAX_SIZE":        "Of its packs, and of its loose objects as they are unpacked, without what the volume began with. [Pushes](../how-to/push.md)",
	"DEFAULT_OPTS":         "Such as `uid=1000,gid=1000`. [The options](options.md)",
	"CACHE_LINK":           "`cache_link` in `DEFAULT_OPTS` overrides it. [The link](../caches.md#the-link-hdcache)",
	"REWRITE_SUBMODULES":   "[Submodules](../git.md#urls-of-submodules)",
	"ALLOW_SHARED_PRIVATE": "[Podman](../runtimes.md#podman)",
	"SELINUX_CONTEXT":      "[Not tested](../operations/selinux.md)",
	"CA_BUNDLE":            "Such as `CA_BUNDLE=\"$(base64 -w0 ca.pem)\"`",
	"AUDIT_SIZE":           "[The audit log](../operations/audit-log.md)",
	"METRICS_ADDR": "Besides the admin socket: plain HTTP without a password, in the host's network, because the plugin has that. " +
		"[The metrics](metrics.md)",
	"METRICS_SUBJECTS": "At most 100 of them",
}

// TestDocs checks the table of docs/reference/settings.md. Names and descriptions come from config.json, defaults from
// the program, and allowed values from its error about a wrong value.
func TestDocs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../config.json")
	if err != nil {
		t.Fatal(err)
	}
	type env struct{ Name, Description string }
	var config struct{ Env []env }
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, e := range config.Env {
		meaning := e.Description
		if note := settingNotes[e.Name]; note != "" {
			meaning += ". " + note
		}
		standard, ok := defaults[e.Name]
		if !ok {
			standard = limitDefaults[e.Name]
		}
		rows = append(rows, []string{testpage.Code(e.Name), meaning, allowed(t, e.Name), testpage.Code(standard)})
	}
	for name := range settingNotes {
		if !slices.ContainsFunc(config.Env, func(e env) bool { return e.Name == name }) {
			t.Errorf("settingNotes has %q, which is no setting", name)
		}
	}
	testpage.Check(t, "../docs/reference/settings.md", "settings", testpage.Table([]string{"setting", "meaning", "allowed", "default"}, rows))
}

// allowed returns what a wrong value's error says is allowed, or "" if the description says it all.
func allowed(t *testing.T, name string) string {
	t.Helper()
	_, err := loadSettings(environment(name + "=?"))
	if err == nil { // NO_PROXY, which is a list of any names
		return ""
	}
	for _, begin := range []string{"allowed is ", "allowed: "} {
		if _, text, ok := strings.Cut(err.Error(), begin); ok && name != "DEFAULT_OPTS" {
			return text
		}
	}
	return ""
}
