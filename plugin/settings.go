package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/viper"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/audit"
	"github.com/helmdeck/repos/internal/escape"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
)

// settings are the plugin's settings, from the environment that `docker plugin set`
// changes. Every default is here and not only in config.json, because an upgrade keeps
// the old environment.
type settings struct {
	mountWait time.Duration
	timeouts  timeouts
	limits    limits
	csi       csiSettings
	keepReady time.Duration // 0: off
	defaults  map[string]string
	schemes   volume.Schemes
	// rewriteSubmodules is REWRITE_SUBMODULES.
	rewriteSubmodules bool
	// sharePrivate is ALLOW_SHARED_PRIVATE.
	sharePrivate bool
	context      string // SELinux
	caBundle     []byte
	proxies      proxies
	postBuffer   int64 // bytes; 0: off
	gitMemory    int64 // bytes; 0: a share of the machine's
	sizeFactor   git.SizeFactor
	level        logrus.Level
	format       logrus.Formatter
	metrics      metricsSettings
	shown        []api.Setting     // all of them, by name, for operators
	auditSize    int64             // bytes; 0: off
	values       map[string]string // of all settings, for the audit log
}

// metricsSettings are METRICS_ADDR, which is empty if nothing listens, and METRICS_SUBJECTS.
type metricsSettings struct {
	addr     string
	subjects bool
}

// timeouts limit one piece of local work, one fetch and one question to a remote, and the processor
// time of each process of a fetch.
type timeouts struct{ work, fetch, ask, fetchCPU time.Duration }

// proxies are the proxies of HTTP remotes, in the syntax that curl and Go share.
type proxies struct{ http, https, none string }

// maxMountWait leaves the engine, which waits at most 120 s, time to read the reply.
const maxMountWait = 118 * time.Second

// maxTimeout bounds the time limits of work: every piece of work has an end.
const maxTimeout = 24 * time.Hour

// minKeepReady is the shortest KEEP_READY: each ref that was mounted costs its remote a
// question in that time.
const minKeepReady = time.Minute

// minPostBuffer is what git sends with a length anyway, and maxPostBuffer half of the memory that
// a process of git may have.
const minPostBuffer, maxPostBuffer = 1 << 20, 2 << 30

// minGitMemory is the least memory in bytes with which git can do something.
const minGitMemory = 256 << 20

// minSizeFactor and maxSizeFactor are far from what any repository needs.
const minSizeFactor, maxSizeFactor = 0.01, 100

// defaults are the defaults of all settings except the limits.
var defaults = map[string]string{
	"MOUNT_WAIT":           "110s",
	"WORK_TIMEOUT":         "10m",
	"FETCH_TIMEOUT":        "2h",
	"FETCH_CPU_TIME":       "1h",
	"ASK_TIMEOUT":          "20s",
	"GIT_MEMORY":           "0",
	"SIZE_FACTOR":          "1",
	"KEEP_READY":           "0",
	"DEFAULT_OPTS":         "",
	"CACHE_LINK":           "false",
	"ALLOW_SCHEMES":        "",
	"REWRITE_SUBMODULES":   "true",
	"ALLOW_SHARED_PRIVATE": "false",
	"SELINUX_CONTEXT":      "",
	"CA_BUNDLE":            "",
	"HTTP_POST_BUFFER":     "64MiB",
	"HTTP_PROXY":           "",
	"HTTPS_PROXY":          "",
	"NO_PROXY":             "",
	"LOG_LEVEL":            "info",
	"LOG_FORMAT":           "text",
	"AUDIT_SIZE":           "64MiB",
	"METRICS_ADDR":         "",
	"METRICS_SUBJECTS":     "false",
}

// levels are the values of LOG_LEVEL.
var levels = map[string]logrus.Level{
	"error": logrus.ErrorLevel, "warn": logrus.WarnLevel, "info": logrus.InfoLevel, "debug": logrus.DebugLevel,
}

// loadSettings reads and checks all settings. getenv returns the value of an environment
// variable, which counts as unset if it is empty. The error names a wrong setting, its value
// and the allowed values.
func loadSettings(getenv func(name string) string) (settings, error) {
	v := viper.New()
	for _, all := range []map[string]string{defaults, limitDefaults, csiDefaults} {
		for key, value := range all {
			v.Set(key, cmp.Or(getenv(key), value))
		}
	}
	var s settings
	var err error
	fail := func(key, allowed string, err error) (settings, error) {
		if err != nil {
			return settings{}, fmt.Errorf("setting %s=%q: %w", key, v.GetString(key), err)
		}
		return settings{}, fmt.Errorf("setting %s=%q: allowed is %s", key, v.GetString(key), allowed)
	}
	s.mountWait, err = time.ParseDuration(v.GetString("MOUNT_WAIT"))
	if err != nil || s.mountWait < time.Second || s.mountWait > maxMountWait {
		return fail("MOUNT_WAIT", fmt.Sprintf("a duration from 1s to %v", maxMountWait), nil)
	}
	for key, to := range map[string]*time.Duration{
		"WORK_TIMEOUT": &s.timeouts.work, "FETCH_TIMEOUT": &s.timeouts.fetch, "FETCH_CPU_TIME": &s.timeouts.fetchCPU, "ASK_TIMEOUT": &s.timeouts.ask,
	} {
		if *to, err = time.ParseDuration(v.GetString(key)); err != nil || *to < time.Second || *to > maxTimeout {
			return fail(key, fmt.Sprintf("a duration from 1s to %v", maxTimeout), nil)
		}
	}
	if s.gitMemory, err = volume.ParseSize(v.GetString("GIT_MEMORY")); err != nil || s.gitMemory != 0 && s.gitMemory < minGitMemory {
		return fail("GIT_MEMORY", "0 for a third of the machine's memory, and 4GiB at most, or a size of at least 256MiB, such as 12GiB", nil)
	}
	factor, err := strconv.ParseFloat(v.GetString("SIZE_FACTOR"), 64)
	if s.sizeFactor = git.SizeFactor(factor); err != nil || !(factor >= minSizeFactor && factor <= maxSizeFactor) {
		return fail("SIZE_FACTOR", fmt.Sprintf("a number from %v to %v", minSizeFactor, maxSizeFactor), nil)
	}
	s.keepReady, err = time.ParseDuration(v.GetString("KEEP_READY"))
	if err != nil || s.keepReady != 0 && (s.keepReady < minKeepReady || s.keepReady > maxTimeout) {
		return fail("KEEP_READY", fmt.Sprintf("0 for off, or a duration from %v to %v", minKeepReady, maxTimeout), nil)
	}
	var wrong, allowed string
	if s.limits, wrong, allowed = loadLimits(v); wrong == "" {
		s.csi, wrong, allowed = loadCSI(v)
	}
	if wrong != "" {
		return fail(wrong, allowed, nil)
	}
	if s.defaults, err = volume.ParseDefaults(v.GetString("DEFAULT_OPTS")); err != nil {
		return fail("DEFAULT_OPTS", "", err)
	}
	var cacheLink bool
	for key, set := range map[string]*bool{
		"CACHE_LINK": &cacheLink, "REWRITE_SUBMODULES": &s.rewriteSubmodules, "ALLOW_SHARED_PRIVATE": &s.sharePrivate, "METRICS_SUBJECTS": &s.metrics.subjects,
	} {
		if *set, err = strconv.ParseBool(v.GetString(key)); err != nil {
			return fail(key, "true or false", nil)
		}
	}
	if _, given := s.defaults["cache_link"]; cacheLink && !given {
		s.defaults["cache_link"] = "true"
	}
	if s.schemes, err = volume.ParseSchemes(v.GetString("ALLOW_SCHEMES")); err != nil {
		return fail("ALLOW_SCHEMES", "", err)
	}
	s.context = v.GetString("SELINUX_CONTEXT")
	if err := checkContext(s.context); err != nil {
		return fail("SELINUX_CONTEXT", "", err)
	}
	if s.caBundle, err = parseCABundle(v.GetString("CA_BUNDLE")); err != nil {
		return settings{}, fmt.Errorf("setting CA_BUNDLE: %w", err) // the value is too long to show
	}
	s.proxies = proxies{v.GetString("HTTP_PROXY"), v.GetString("HTTPS_PROXY"), v.GetString("NO_PROXY")}
	for key, text := range map[string]string{"HTTP_PROXY": s.proxies.http, "HTTPS_PROXY": s.proxies.https} {
		if err := checkProxy(text); err != nil {
			return settings{}, fmt.Errorf("setting %s: %w", key, err)
		}
	}
	if s.postBuffer, err = volume.ParseSize(v.GetString("HTTP_POST_BUFFER")); err != nil || s.postBuffer != 0 && (s.postBuffer < minPostBuffer || s.postBuffer > maxPostBuffer) {
		return fail("HTTP_POST_BUFFER", "0 for no second try, or a size from 1MiB to 2GiB, such as 64MiB", nil)
	}
	if s.auditSize, err = volume.ParseSize(v.GetString("AUDIT_SIZE")); err != nil || s.auditSize != 0 && s.auditSize < audit.MinSize {
		return fail("AUDIT_SIZE", "0 for no audit log, or a size of at least 512KiB, such as 64MiB", nil)
	}
	s.metrics.addr = v.GetString("METRICS_ADDR")
	if !isListenAddr(s.metrics.addr) {
		return fail("METRICS_ADDR", "an IP address with a port from 1024, such as 127.0.0.1:9464 or [::1]:9464, or :9464 for all addresses of the machine; with port 0 the kernel chooses one, and the log names it", nil)
	}
	var ok bool
	if s.level, ok = levels[strings.ToLower(v.GetString("LOG_LEVEL"))]; !ok {
		return fail("LOG_LEVEL", "error, warn, info or debug", nil)
	}
	switch strings.ToLower(v.GetString("LOG_FORMAT")) {
	case "text":
		s.format = textLines
	case "json":
		s.format = jsonLines{}
	default:
		return fail("LOG_FORMAT", "text or json", nil)
	}
	s.shown = show(v)
	s.values = recorded(v)
	return s, nil
}

// firstOpenPort is the first port that needs no capability: the plugin drops the one for those below.
// Port 0 needs none either: the kernel chooses a higher one.
const firstOpenPort = 1024

// isListenAddr reports whether an address is one to listen at, or empty. A name is not,
// because it may have several addresses.
func isListenAddr(text string) bool {
	if text == "" {
		return true
	}
	if port, all := strings.CutPrefix(text, ":"); all {
		text = "0.0.0.0:" + port
	}
	addr, err := netip.ParseAddrPort(text)
	return err == nil && (addr.Port() == 0 || addr.Port() >= firstOpenPort)
}

// hidden are the settings whose value is not shown, because it is long.
var hidden = []string{"CA_BUNDLE"}

// show returns the settings for operators: those for Kubernetes only if kubelet is served. No
// setting is a secret: those that could contain one are refused.
func show(v *viper.Viper) (list []api.Setting) {
	all := []map[string]string{defaults, limitDefaults}
	if v.GetString("CSI_ENDPOINT") != "" {
		all = append(all, csiDefaults)
	}
	for _, group := range all {
		for key, standard := range group {
			s := api.Setting{Name: key, Value: v.GetString(key), Default: standard, Hidden: slices.Contains(hidden, key)}
			if s.Set = s.Value != standard; s.Hidden {
				s.Value = ""
			}
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b api.Setting) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// checkProxy refuses URLs that curl and Go would parse differently. It also refuses passwords,
// because git gets the proxy in its environment, which processes of the same uid can read.
func checkProxy(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("is not a proxy's URL; allowed is http://host:port or https://host:port")
	case u.User != nil:
		return errors.New("contains a user name or password; a proxy that asks for one is not supported")
	}
	return nil
}

// textLines are the lines of the log as text. Without colors, values are quoted, and what is not
// printable in them is escaped, also on a terminal.
var textLines = &logrus.TextFormatter{DisableColors: true, FullTimestamp: true}

// jsonLines are the lines of the log as JSON.
type jsonLines struct{ logrus.JSONFormatter }

// Format implements logrus.Formatter.
func (j jsonLines) Format(e *logrus.Entry) ([]byte, error) {
	line, err := j.JSONFormatter.Format(e)
	return append(escape.AppendJSON(nil, bytes.TrimSuffix(line, []byte("\n"))), '\n'), err
}

// configure applies the settings to the log.
func (s settings) configure(log *logrus.Logger) {
	log.SetLevel(s.level)
	log.SetFormatter(s.format)
	log.AddHook(origin.Hook{})
}
