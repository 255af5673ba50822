package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/admin/audit"
)

// settingCase is a test of one value of a setting.
type settingCase struct {
	key, value string
	ok         func(s settings) bool // nil: the value is refused
	want       string                // part of the error, besides the name and the value
}

func (c settingCase) run(t *testing.T) { c.check(t) }

// check is run with other settings besides, as name=value.
func (c settingCase) check(t *testing.T, besides ...string) {
	t.Helper()
	s, err := loadSettings(environment(append(besides, c.key+"="+c.value)...))
	if c.ok != nil {
		if err != nil || !c.ok(s) {
			t.Errorf("%+v, %v", s, err)
		}
		return
	}
	if err == nil {
		t.Fatalf("accepted: %+v", s)
	}
	for _, want := range []string{"setting " + c.key, strings.TrimSpace(c.value), c.want} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []settingCase{
		{"MOUNT_WAIT", "", func(s settings) bool { return s.mountWait == 110*time.Second }, ""},
		{"MOUNT_WAIT", "25s", func(s settings) bool { return s.mountWait == 25*time.Second }, ""},
		{"MOUNT_WAIT", "1s", func(s settings) bool { return s.mountWait == time.Second }, ""},
		{"MOUNT_WAIT", "118s", func(s settings) bool { return s.mountWait == 118*time.Second }, ""},
		{"MOUNT_WAIT", "119s", nil, "a duration from 1s to 1m58s"},
		{"MOUNT_WAIT", "0", nil, "a duration from 1s to 1m58s"},
		{"MOUNT_WAIT", "-5s", nil, "a duration from 1s to 1m58s"},
		{"MOUNT_WAIT", "110", nil, "a duration from 1s to 1m58s"},
		{"WORK_TIMEOUT", "", func(s settings) bool { return s.timeouts.work == 10*time.Minute }, ""},
		{"WORK_TIMEOUT", "0", nil, "a duration from 1s to 24h0m0s"},
		{"FETCH_TIMEOUT", "", func(s settings) bool { return s.timeouts.fetch == 2*time.Hour }, ""},
		{"FETCH_TIMEOUT", "5m", func(s settings) bool { return s.timeouts.fetch == 5*time.Minute }, ""},
		{"FETCH_TIMEOUT", "25h", nil, "a duration from 1s to 24h0m0s"},
		{"FETCH_CPU_TIME", "", func(s settings) bool { return s.timeouts.fetchCPU == time.Hour }, ""},
		{"FETCH_CPU_TIME", "6h", func(s settings) bool { return s.timeouts.fetchCPU == 6*time.Hour }, ""},
		{"FETCH_CPU_TIME", "0", nil, "a duration from 1s to 24h0m0s"},
		{"ASK_TIMEOUT", "", func(s settings) bool { return s.timeouts.ask == 20*time.Second }, ""},
		{"ASK_TIMEOUT", "2m", func(s settings) bool { return s.timeouts.ask == 2*time.Minute }, ""},
		{"ASK_TIMEOUT", "0", nil, "a duration from 1s to 24h0m0s"},
		{"GIT_MEMORY", "", func(s settings) bool { return s.gitMemory == 0 }, ""},
		{"GIT_MEMORY", "0", func(s settings) bool { return s.gitMemory == 0 }, ""},
		{"GIT_MEMORY", "12GiB", func(s settings) bool { return s.gitMemory == 12<<30 }, ""},
		{"GIT_MEMORY", "255MiB", nil, "at least 256MiB"},
		{"GIT_MEMORY", "8", nil, "at least 256MiB"},
		{"SIZE_FACTOR", "", func(s settings) bool { return s.sizeFactor == 1 }, ""},
		{"SIZE_FACTOR", "2.5", func(s settings) bool { return s.sizeFactor == 2.5 }, ""},
		{"SIZE_FACTOR", "100", func(s settings) bool { return s.sizeFactor == 100 }, ""},
		{"SIZE_FACTOR", "0.01", func(s settings) bool { return s.sizeFactor == 0.01 }, ""},
		{"SIZE_FACTOR", "0", nil, "a number from 0.01 to 100"},
		{"SIZE_FACTOR", "101", nil, "a number from 0.01 to 100"},
		{"SIZE_FACTOR", "NaN", nil, "a number from 0.01 to 100"},
		{"SIZE_FACTOR", "2x", nil, "a number from 0.01 to 100"},
		{"HTTP_POST_BUFFER", "", func(s settings) bool { return s.postBuffer == 64<<20 }, ""},
		{"HTTP_POST_BUFFER", "0", func(s settings) bool { return s.postBuffer == 0 }, ""},
		{"HTTP_POST_BUFFER", "2GiB", func(s settings) bool { return s.postBuffer == 2<<30 }, ""},
		{"HTTP_POST_BUFFER", "512KiB", nil, "from 1MiB to 2GiB"},
		{"HTTP_POST_BUFFER", "3GiB", nil, "from 1MiB to 2GiB"},
		{"HTTP_POST_BUFFER", "64", nil, "from 1MiB to 2GiB"},
		{"KEEP_READY", "", func(s settings) bool { return s.keepReady == 0 }, ""},
		{"KEEP_READY", "0", func(s settings) bool { return s.keepReady == 0 }, ""},
		{"KEEP_READY", "5m", func(s settings) bool { return s.keepReady == 5*time.Minute }, ""},
		{"KEEP_READY", "59s", nil, "0 for off, or a duration from 1m0s to 24h0m0s"},
		{"KEEP_READY", "-5m", nil, "from 1m0s"},
		{"KEEP_READY", "25h", nil, "to 24h0m0s"},
		{"KEEP_READY", "5", nil, "from 1m0s"},
		{"CACHE_LINK", "", func(s settings) bool { return s.defaults["cache_link"] != "true" }, ""},
		{"CACHE_LINK", "true", func(s settings) bool { return s.defaults["cache_link"] == "true" }, ""},
		{"CACHE_LINK", "yes", nil, "true or false"},
		{"DEFAULT_OPTS", "", func(s settings) bool { return len(s.defaults) == 0 }, ""},
		{"DEFAULT_OPTS", "cache=off,refresh=30s", func(s settings) bool { return s.defaults["cache"] == "off" && s.defaults["refresh"] == "30s" }, ""},
		{"DEFAULT_OPTS", "cache=some", nil, "shared, off"},
		{"DEFAULT_OPTS", "repo=https://h/x", nil, "can't have a default"},
		{"ALLOW_SCHEMES", "", func(s settings) bool { return s.schemes.Allows("https") && !s.schemes.Allows("ssh") }, ""},
		{"ALLOW_SCHEMES", "ssh", func(s settings) bool { return s.schemes.Allows("ssh") && s.schemes.Allows("http") }, ""},
		{"ALLOW_SCHEMES", "file", nil, "git, ssh"},
		{"ALLOW_SCHEMES", "ext", nil, "git, ssh"},
		{"REWRITE_SUBMODULES", "", func(s settings) bool { return s.rewriteSubmodules }, ""},
		{"REWRITE_SUBMODULES", "false", func(s settings) bool { return !s.rewriteSubmodules }, ""},
		{"REWRITE_SUBMODULES", "https", nil, "true or false"},
		{"ALLOW_SHARED_PRIVATE", "", func(s settings) bool { return !s.sharePrivate }, ""},
		{"ALLOW_SHARED_PRIVATE", "true", func(s settings) bool { return s.sharePrivate }, ""},
		{"ALLOW_SHARED_PRIVATE", "maybe", nil, "true or false"},
		{"SELINUX_CONTEXT", "", func(s settings) bool { return s.context == "" }, ""},
		{"SELINUX_CONTEXT", "system_u:object_r:container_file_t:s0", func(s settings) bool { return s.context == "system_u:object_r:container_file_t:s0" }, ""},
		{"SELINUX_CONTEXT", "system_u:object_r:container_file_t:s0:c1,c2", nil, "without categories"},
		{"SELINUX_CONTEXT", "system_u:object_r:container_file_t:s0,xino=on", nil, "is not an SELinux context"},
		{"SELINUX_CONTEXT", "a:b:c:s0\n", nil, "is not an SELinux context"},
		{"SELINUX_CONTEXT", "container_file_t", nil, "is not an SELinux context"},
		{"AUDIT_SIZE", "", func(s settings) bool { return s.auditSize == 64<<20 }, ""},
		{"AUDIT_SIZE", "0", func(s settings) bool { return s.auditSize == 0 }, ""},
		{"AUDIT_SIZE", "512KiB", func(s settings) bool { return s.auditSize == audit.MinSize }, ""},
		{"AUDIT_SIZE", "511KiB", nil, "at least 512KiB"},
		{"AUDIT_SIZE", "64", nil, "at least 512KiB"},
		{"METRICS_ADDR", "", func(s settings) bool { return s.metrics.addr == "" }, ""},
		{"METRICS_ADDR", "127.0.0.1:9464", func(s settings) bool { return s.metrics.addr == "127.0.0.1:9464" }, ""},
		{"METRICS_ADDR", "[::1]:9464", func(s settings) bool { return s.metrics.addr == "[::1]:9464" }, ""},
		{"METRICS_ADDR", "[fe80::1%eth0]:9464", func(s settings) bool { return s.metrics.addr == "[fe80::1%eth0]:9464" }, ""},
		{"METRICS_ADDR", ":9464", func(s settings) bool { return s.metrics.addr == ":9464" }, ""},
		{"METRICS_ADDR", "9464", nil, "an IP address with a port"},
		{"METRICS_ADDR", "127.0.0.1", nil, "an IP address with a port"},
		{"METRICS_ADDR", "127.0.0.1:0", func(s settings) bool { return s.metrics.addr == "127.0.0.1:0" }, ""},
		{"METRICS_ADDR", ":0", func(s settings) bool { return s.metrics.addr == ":0" }, ""},
		{"METRICS_ADDR", "127.0.0.1:1", nil, "an IP address with a port from 1024"},
		{"METRICS_ADDR", "127.0.0.1:", nil, "an IP address with a port"},
		{"METRICS_ADDR", "127.0.0.1:65536", nil, "an IP address with a port"},
		{"METRICS_ADDR", "127.0.0.1:1023", nil, "an IP address with a port from 1024"},
		{"METRICS_ADDR", "127.0.0.1:1024", func(s settings) bool { return s.metrics.addr == "127.0.0.1:1024" }, ""},
		{"METRICS_ADDR", ":http", nil, "an IP address with a port"},
		{"METRICS_ADDR", "::1:9464", nil, "[::1]:9464"},
		{"METRICS_ADDR", "localhost:9464", nil, "127.0.0.1:9464"},
		{"METRICS_ADDR", "http://127.0.0.1:9464/metrics", nil, "an IP address with a port"},
		{"METRICS_ADDR", "unix:/run/x", nil, "an IP address with a port"},
		{"METRICS_SUBJECTS", "", func(s settings) bool { return !s.metrics.subjects }, ""},
		{"METRICS_SUBJECTS", "true", func(s settings) bool { return s.metrics.subjects }, ""},
		{"METRICS_SUBJECTS", "all", nil, "true or false"},
		{"LOG_LEVEL", "", func(s settings) bool { return s.level == logrus.InfoLevel }, ""},
		{"LOG_LEVEL", "DEBUG", func(s settings) bool { return s.level == logrus.DebugLevel }, ""},
		{"LOG_LEVEL", "loud", nil, "error, warn, info or debug"},
		{"LOG_FORMAT", "", func(s settings) bool { _, ok := s.format.(*logrus.TextFormatter); return ok }, ""},
		{"LOG_FORMAT", "json", func(s settings) bool { _, ok := s.format.(jsonLines); return ok }, ""},
		{"LOG_FORMAT", "xml", nil, "text or json"},
	} {
		t.Run(tt.key+"="+tt.value, tt.run)
	}
}

// TestCacheLinkOfDefaultOptions checks that the default option says more than the setting.
func TestCacheLinkOfDefaultOptions(t *testing.T) {
	t.Parallel()
	settingCase{"CACHE_LINK", "true", func(s settings) bool { return s.defaults["cache_link"] == "false" }, ""}.check(t, "DEFAULT_OPTS=cache_link=false")
}

// TestWrongSettingStopsTheStart checks that a wrong setting stops the start before anything is changed.
func TestWrongSettingStopsTheStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	err := run(t.Context(), places{data: data}, environment("MOUNT_WAIT=soon"), logrus.New())
	if err == nil || !strings.Contains(err.Error(), `setting MOUNT_WAIT="soon"`) {
		t.Errorf("run: %v", err)
	}
}
