package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/viper"

	"github.com/helmdeck/repos/internal/disk/project"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/janitor"
)

// limits are the settings of the janitor, and those of workspaces.
type limits struct {
	janitor.Limits
	workspace        verbs.Limits
	subjectMaxLeases int
	sweepInterval    time.Duration
	warnSize         int64 // bytes
	pushMaxSize      int64 // bytes
	projects         project.Range
}

// limitDefaults are the defaults, also of an upgraded plugin: space is bounded, and 14
// days are longer than a holiday.
var limitDefaults = map[string]string{
	"TTL":                 "336h",
	"MAX_SIZE":            "20GiB",
	"MIN_FREE":            "5%",
	"SUBJECT_MAX_SIZE":    "0",
	"SUBJECT_MAX_LEASES":  "0",
	"SWEEP_INTERVAL":      "5m",
	"CHECKPOINT_TTL":      "24h",
	"WORKSPACE_WARN_SIZE": "10GiB",
	"PUSH_MAX_SIZE":       "1GiB",

	"PROJECT_IDS":          "1200000000-1200065535",
	"WORKSPACE_SIZE":       "0",
	"WORKSPACE_INODES":     "0",
	"WORKSPACE_MAX_SIZE":   "0",
	"WORKSPACE_MAX_INODES": "0",
}

// grace is how long a clone that was never mounted is protected: longer than the time
// from creating a volume to starting a container, including an image pull.
const grace = 10 * time.Minute

const (
	anInterval = "0 for no limit, or a duration such as 336h or 90m"
	aSize      = "0 for no limit, or a size such as 20GiB, with B, KiB, MiB, GiB or TiB"
)

// loadLimits reads the settings of the janitor. key is the name of a wrong setting.
func loadLimits(v *viper.Viper) (l limits, key, allowed string) {
	l.Grace = grace
	for key, to := range map[string]*time.Duration{"TTL": &l.TTL, "CHECKPOINT_TTL": &l.CheckpointTTL, "SWEEP_INTERVAL": &l.sweepInterval} {
		d, err := time.ParseDuration(v.GetString(key))
		if err != nil || d < 0 {
			return l, key, map[string]string{
				"TTL": anInterval, "CHECKPOINT_TTL": "0 for no checkpoints, or a duration such as 24h",
				"SWEEP_INTERVAL": "0 for sweeps only when something grows, or a duration such as 5m",
			}[key]
		}
		*to = d
	}
	for key, to := range map[string]*int64{"MAX_SIZE": &l.MaxSize, "SUBJECT_MAX_SIZE": &l.SubjectMaxSize, "WORKSPACE_WARN_SIZE": &l.warnSize} {
		n, err := volume.ParseSize(v.GetString(key))
		if err != nil {
			return l, key, aSize
		}
		*to = n
	}
	var err error
	if l.pushMaxSize, err = volume.ParseSize(v.GetString("PUSH_MAX_SIZE")); err != nil || l.pushMaxSize < minPushSize {
		return l, "PUSH_MAX_SIZE", "a size of at least 1MiB, such as 1GiB"
	}
	percent, isPercent := strings.CutSuffix(v.GetString("MIN_FREE"), "%")
	share, err := strconv.ParseFloat(percent, 64)
	if !isPercent && percent != "0" || err != nil || !(share >= 0 && share <= maxMinFree) {
		return l, "MIN_FREE", fmt.Sprintf("a share of the disk from 0%% to %d%%", maxMinFree)
	}
	l.MinFree = share / 100
	if l.subjectMaxLeases, err = strconv.Atoi(v.GetString("SUBJECT_MAX_LEASES")); err != nil || l.subjectMaxLeases < 0 {
		return l, "SUBJECT_MAX_LEASES", "0 for no limit, or a number of mounts"
	}
	key, allowed = l.loadWorkspace(v)
	return l, key, allowed
}

// loadWorkspace reads the limits of workspaces.
func (l *limits) loadWorkspace(v *viper.Viper) (key, allowed string) {
	var err error
	if l.projects, err = project.ParseRange(v.GetString("PROJECT_IDS")); err != nil {
		return "PROJECT_IDS", "a range of IDs from 1 to 4294967294, such as 1200000000-1200065535"
	}
	byDefault, most := &l.workspace.Default, &l.workspace.Max
	for _, s := range []struct {
		key, allowed string
		parse        func(string) (int64, string)
		to, most     *int64
	}{
		{"WORKSPACE_MAX_SIZE", "0 for no limit, or a size of at least 1MiB, such as 2GiB", volume.ParseLimit, &most.Bytes, nil},
		{"WORKSPACE_SIZE", "0 for WORKSPACE_MAX_SIZE, or a size from 1MiB to WORKSPACE_MAX_SIZE, such as 2GiB", volume.ParseLimit, &byDefault.Bytes, &most.Bytes},
		{"WORKSPACE_MAX_INODES", "0 for no limit, or a number of at least 100", volume.ParseInodes, &most.Inodes, nil},
		{"WORKSPACE_INODES", "0 for WORKSPACE_MAX_INODES, or a number from 100 to WORKSPACE_MAX_INODES", volume.ParseInodes, &byDefault.Inodes, &most.Inodes},
	} {
		if text := v.GetString(s.key); text != "0" {
			var problem string
			if *s.to, problem = s.parse(text); problem != "" {
				return s.key, s.allowed
			}
		}
		if s.most != nil && *s.most > 0 {
			if *s.to > *s.most {
				return s.key, s.allowed
			}
			*s.to = cmp.Or(*s.to, *s.most) // otherwise a volume would have no limit because it asks for none
		}
	}
	return "", ""
}

// minPushSize is enough for a push of a few commits. There is no way to allow any size, because a
// push takes as much of the disk.
const minPushSize = 1 << 20

// maxMinFree is in percent. With more, the plugin could hardly keep anything.
const maxMinFree = 90
