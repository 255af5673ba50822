package main

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/verbs"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, tt := range []settingCase{
		{"TTL", "", func(s settings) bool { return s.limits.TTL == 14*24*time.Hour }, ""},
		{"TTL", "0", func(s settings) bool { return s.limits.TTL == 0 }, ""},
		{"TTL", "90m", func(s settings) bool { return s.limits.TTL == 90*time.Minute }, ""},
		{"TTL", "14d", nil, "0 for no limit, or a duration such as 336h or 90m"},
		{"TTL", "-1h", nil, "0 for no limit, or a duration such as 336h or 90m"},
		{"MAX_SIZE", "", func(s settings) bool { return s.limits.MaxSize == 20*gib }, ""},
		{"MAX_SIZE", "0", func(s settings) bool { return s.limits.MaxSize == 0 }, ""},
		{"MAX_SIZE", "512B", func(s settings) bool { return s.limits.MaxSize == 512 }, ""},
		{"MAX_SIZE", "1KiB", func(s settings) bool { return s.limits.MaxSize == 1024 }, ""},
		{"MAX_SIZE", "300MiB", func(s settings) bool { return s.limits.MaxSize == 300<<20 }, ""},
		{"MAX_SIZE", "1.5TiB", func(s settings) bool { return s.limits.MaxSize == 1536*gib }, ""},
		{"MAX_SIZE", "20G", func(s settings) bool { return s.limits.MaxSize == 20*gib }, ""},
		{"MAX_SIZE", "20GB", nil, "a size such as 20GiB, with B, KiB, MiB, GiB or TiB"},
		{"MAX_SIZE", "20", nil, "a size such as 20GiB"},
		{"MAX_SIZE", "-1GiB", nil, "a size such as 20GiB"},
		{"MAX_SIZE", "1e3GiB", nil, "a size such as 20GiB"},
		{"MAX_SIZE", "20GiBB", nil, "a size such as 20GiB"},
		{"MAX_SIZE", "GiB", nil, "a size such as 20GiB"},
		{"MAX_SIZE", "99999999TiB", nil, "a size such as 20GiB"},
		{"MAX_SIZE", "NaN", nil, "a size such as 20GiB"},
		{"MAX_SIZE", "unlimited", nil, "0 for no limit"},
		{"SUBJECT_MAX_SIZE", "", func(s settings) bool { return s.limits.SubjectMaxSize == 0 }, ""},
		{"SUBJECT_MAX_SIZE", "2GiB", func(s settings) bool { return s.limits.SubjectMaxSize == 2*gib }, ""},
		{"SUBJECT_MAX_SIZE", "lots", nil, "a size such as 20GiB"},
		{"WORKSPACE_WARN_SIZE", "", func(s settings) bool { return s.limits.warnSize == 10*gib }, ""},
		{"WORKSPACE_WARN_SIZE", "0", func(s settings) bool { return s.limits.warnSize == 0 }, ""},
		{"WORKSPACE_WARN_SIZE", "x", nil, "a size such as 20GiB"},
		{"WORKSPACE_SIZE", "", func(s settings) bool { return s.limits.workspace == verbs.Limits{} }, ""},
		{"WORKSPACE_SIZE", "2GiB", func(s settings) bool { return s.limits.workspace.Default == disk.Size{Bytes: 2 * gib} }, ""},
		{"WORKSPACE_SIZE", "1023KiB", nil, "a size from 1MiB"},
		{"WORKSPACE_SIZE", "2", nil, "such as 2GiB"},
		{"WORKSPACE_MAX_SIZE", "0", func(s settings) bool { return s.limits.workspace == verbs.Limits{} }, ""},
		{"WORKSPACE_MAX_SIZE", "4GiB", func(s settings) bool {
			return s.limits.workspace == verbs.Limits{Default: disk.Size{Bytes: 4 * gib}, Max: disk.Size{Bytes: 4 * gib}}
		}, ""},
		{"WORKSPACE_MAX_SIZE", "-1GiB", nil, "at least 1MiB"},
		{"WORKSPACE_INODES", "1000", func(s settings) bool { return s.limits.workspace.Default == disk.Size{Inodes: 1000} }, ""},
		{"WORKSPACE_INODES", "1k", nil, "a number from 100"},
		{"WORKSPACE_MAX_INODES", "99", nil, "at least 100"},
		{"MIN_FREE", "", func(s settings) bool { return s.limits.MinFree == .05 }, ""},
		{"MIN_FREE", "0", func(s settings) bool { return s.limits.MinFree == 0 }, ""},
		{"MIN_FREE", "0%", func(s settings) bool { return s.limits.MinFree == 0 }, ""},
		{"MIN_FREE", "12.5%", func(s settings) bool { return s.limits.MinFree == .125 }, ""},
		{"MIN_FREE", "90%", func(s settings) bool { return s.limits.MinFree == .9 }, ""},
		{"MIN_FREE", "91%", nil, "a share of the disk from 0% to 90%"},
		{"MIN_FREE", "-1%", nil, "a share of the disk from 0% to 90%"},
		{"MIN_FREE", "NaN%", nil, "a share of the disk from 0% to 90%"},
		{"MIN_FREE", "5", nil, "a share of the disk from 0% to 90%"},
		{"MIN_FREE", "5GiB", nil, "a share of the disk from 0% to 90%"},
		{"SUBJECT_MAX_LEASES", "", func(s settings) bool { return s.limits.subjectMaxLeases == 0 }, ""},
		{"SUBJECT_MAX_LEASES", "16", func(s settings) bool { return s.limits.subjectMaxLeases == 16 }, ""},
		{"SUBJECT_MAX_LEASES", "-1", nil, "0 for no limit, or a number of mounts"},
		{"SUBJECT_MAX_LEASES", "many", nil, "0 for no limit, or a number of mounts"},
		{"SWEEP_INTERVAL", "", func(s settings) bool { return s.limits.sweepInterval == 5*time.Minute }, ""},
		{"SWEEP_INTERVAL", "0", func(s settings) bool { return s.limits.sweepInterval == 0 }, ""},
		{"SWEEP_INTERVAL", "30s", func(s settings) bool { return s.limits.sweepInterval == 30*time.Second }, ""},
		{"SWEEP_INTERVAL", "often", nil, "a duration such as 5m"},
		{"CHECKPOINT_TTL", "", func(s settings) bool { return s.limits.CheckpointTTL == 24*time.Hour }, ""},
		{"CHECKPOINT_TTL", "0", func(s settings) bool { return s.limits.CheckpointTTL == 0 }, ""},
		{"CHECKPOINT_TTL", "90m", func(s settings) bool { return s.limits.CheckpointTTL == 90*time.Minute }, ""},
		{"CHECKPOINT_TTL", "-1h", nil, "a duration such as 24h"},
		{"CHECKPOINT_TTL", "24", nil, "a duration such as 24h"},
	} {
		t.Run(tt.key+"="+tt.value, tt.run)
	}
}

// TestWorkspaceLimits: the default of the limit of workspaces is at most what a volume may ask for.
func TestWorkspaceLimits(t *testing.T) {
	t.Parallel()
	const most = "WORKSPACE_MAX_SIZE=2GiB"
	settingCase{"WORKSPACE_SIZE", "1GiB", func(s settings) bool {
		return s.limits.workspace == verbs.Limits{Default: disk.Size{Bytes: 1 << 30}, Max: disk.Size{Bytes: 2 << 30}}
	}, ""}.check(t, most)
	settingCase{"WORKSPACE_SIZE", "3GiB", nil, "to WORKSPACE_MAX_SIZE"}.check(t, most)
}

// TestConfigHasTheLimits checks that config.json lists the limits with the defaults of the binary, so
// that operators find them.
func TestConfigHasTheLimits(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Env []struct{ Name, Value string }
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]string)
	for _, e := range config.Env {
		listed[e.Name] = e.Value
	}
	for name, value := range limitDefaults {
		if listed[name] != value {
			t.Errorf("%s is %q in config.json, %q in the binary", name, listed[name], value)
		}
	}
}

// TestShownSettings checks that operators see each setting that config.json lists, with the value in
// force, and not the certificates.
func TestShownSettings(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Env []struct{ Name string } }
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	var listed, shown []string
	for _, e := range config.Env {
		listed = append(listed, e.Name)
	}
	set, err := loadSettings(environment("MAX_SIZE=1TiB", "TTL=", "CA_BUNDLE="+string(tlsRemote(t).CA())))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range set.shown {
		shown = append(shown, s.Name)
		want := api.Setting{Name: s.Name, Default: s.Default, Value: s.Value}
		switch s.Name {
		case "MAX_SIZE":
			want = api.Setting{Name: s.Name, Default: "20GiB", Value: "1TiB", Set: true}
		case "TTL": // an empty variable counts as unset
			want = api.Setting{Name: s.Name, Default: "336h", Value: "336h"}
		case "CA_BUNDLE":
			want = api.Setting{Name: s.Name, Set: true, Hidden: true}
		case "MIN_FREE", "DEFAULT_OPTS": // environment sets them
			continue
		}
		if s != want {
			t.Errorf("got %+v, want %+v", s, want)
		}
	}
	slices.Sort(listed)
	if !slices.Equal(shown, listed) {
		t.Errorf("shown are\n%q, config.json has\n%q", shown, listed)
	}
}
