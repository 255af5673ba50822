package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/viper"

	"github.com/helmdeck/repos/janitor"
)

// limits are the settings of the janitor.
type limits struct {
	janitor.Limits
	subjectMaxLeases int
	sweepInterval    time.Duration
	warnSize         int64 // bytes
	pushMaxSize      int64 // bytes
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
	"DISCARD_TTL":         "24h",
	"WORKSPACE_WARN_SIZE": "10GiB",
	"PUSH_MAX_SIZE":       "1GiB",
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
	for key, to := range map[string]*time.Duration{"TTL": &l.TTL, "DISCARD_TTL": &l.DiscardTTL, "SWEEP_INTERVAL": &l.sweepInterval} {
		d, err := time.ParseDuration(v.GetString(key))
		if err != nil || d < 0 {
			return l, key, map[string]string{
				"TTL": anInterval, "DISCARD_TTL": "0 for no discards, or a duration such as 24h",
				"SWEEP_INTERVAL": "0 for sweeps only when something grows, or a duration such as 5m",
			}[key]
		}
		*to = d
	}
	for key, to := range map[string]*int64{"MAX_SIZE": &l.MaxSize, "SUBJECT_MAX_SIZE": &l.SubjectMaxSize, "WORKSPACE_WARN_SIZE": &l.warnSize} {
		n, err := parseSize(v.GetString(key))
		if err != nil {
			return l, key, aSize
		}
		*to = n
	}
	var err error
	if l.pushMaxSize, err = parseSize(v.GetString("PUSH_MAX_SIZE")); err != nil || l.pushMaxSize < minPushSize {
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
	return l, "", ""
}

// minPushSize is enough for a push of a few commits. There is no way to allow any size, because a
// push takes as much of the disk.
const minPushSize = 1 << 20

// maxMinFree is in percent. With more, the plugin could hardly keep anything.
const maxMinFree = 90

// parseSize reads a number of bytes such as 20GiB, 1.5TiB, 512B or 0.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "BKMGTi")
	shift, ok := map[string]int{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[text[len(number):]]
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || !ok || strings.Trim(number, "0123456789.") != "":
		return 0, strconv.ErrSyntax
	case text == number && n != 0: // the unit is missing
		return 0, strconv.ErrSyntax
	}
	if n *= float64(int64(1) << shift); n > 1<<60 {
		return 0, strconv.ErrRange
	}
	return int64(n), nil
}
