package metrics

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/work/phase"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/testpage"
)

func quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// sample has a value in each metric.
func sample() Figures {
	kind := janitor.Tree
	return Figures{
		Volumes: 7, Clones: 3, Leases: 5, Workspaces: map[string]int{"mounted": 4, "checkpoint": 2},
		Disk:     map[string]disk.Size{"store": {Bytes: 1000, Inodes: 10}, "tree": {Bytes: 2000, Inodes: 20}},
		Subjects: map[string]*Subject{"default": {Bytes: 3000, Leases: 5}},
		Space:    disk.Space{Total: disk.Size{Bytes: 1 << 40, Inodes: 1 << 20}, Free: disk.Size{Bytes: 1 << 39, Inodes: 1 << 19}},
		Limits:   janitor.Limits{MaxSize: 1 << 30, MinFree: 0.05},
		Janitor: janitor.Stats{
			Counts: []janitor.Count{
				{Type: janitor.Evicted, Kind: &kind, Reason: janitor.MaxSize, Times: 3, Size: disk.Size{Bytes: 300}},
				{Type: janitor.NotEvicted, Kind: &kind, Reason: janitor.TTL, Times: 2},
			},
			Sweeps: 9, FailedSweeps: 1,
			Last: janitor.Report{Began: time.Unix(1_700_000_000, 5e8), Left: janitor.Plan{
				Missing: []janitor.Missing{{Reason: janitor.SubjectMaxSize, Subject: "a"}, {Reason: janitor.SubjectMaxSize, Subject: "b"}},
			}},
		},
	}
}

// scrape returns the metrics that a handler serves, by name.
func scrape(t *testing.T, h http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value returns the value of a series with these labels and their values.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
series:
	for _, m := range families[name].GetMetric() {
		for i := 0; i < len(labels); i += 2 {
			if !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == labels[i] && l.GetValue() == labels[i+1] }) {
				continue series
			}
		}
		switch {
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		case m.Counter != nil:
			return m.Counter.GetValue()
		}
		return m.Gauge.GetValue()
	}
	t.Errorf("there is no series %s%q", name, labels)
	return -1
}

func handler(subjects bool, read func() Figures) (http.Handler, *Counters) {
	c := NewCounters()
	return Handler(Config{Counters: c, Figures: read, Subjects: subjects, Version: "1.2.3", Log: quiet()}), c
}

func TestValues(t *testing.T) {
	h, c := handler(false, sample)
	c.Operation("mount", "", time.Second, map[phase.Phase]time.Duration{phase.Build: time.Second})
	c.Operation("mount", verbs.NotFound, 0, nil)
	c.Operation("unmount", verbs.InUse, 0, nil)
	c.CSI("publish", "aborted")
	c.Git(git.Event{What: git.RanCommand, Via: "fetch", Kind: giterror.KindOK, Took: 2 * time.Second})
	c.Git(git.Event{What: git.AskedRemote, Via: git.ThisProcess, Kind: giterror.KindCredential})
	c.Git(git.Event{What: git.FetchedRemote, Via: git.ThroughGit, Kind: giterror.KindServer})
	got := scrape(t, h)
	for _, tt := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"mounts_total", []string{"result", "ok"}, 1},
		{"mounts_total", []string{"result", "not_found"}, 1},
		{"mounts_total", []string{"result", "internal"}, 0},
		{"mount_duration_seconds", []string{"result", "ok"}, 1},
		{"mount_duration_seconds", []string{"result", "error"}, 1},
		{"mount_phase_duration_seconds", []string{"phase", "build"}, 1},
		{"mount_phase_duration_seconds", []string{"phase", "fetch"}, 0},
		{"unmounts_total", []string{"result", "in_use"}, 1},
		{"creates_total", []string{"result", "ok"}, 0},
		{"csi_calls_total", []string{"operation", "publish", "code", "aborted"}, 1},
		{"csi_calls_total", []string{"operation", "unpublish", "code", "ok"}, 0},
		{"git_commands_total", []string{"command", "fetch", "result", "ok"}, 1},
		{"git_command_seconds_total", []string{"command", "fetch"}, 2},
		{"remote_questions_total", []string{"via", "http", "result", "credential_cant_be_used"}, 1},
		{"remote_questions_total", []string{"via", "http", "result", "fallback"}, 0},
		{"remote_fetches_total", []string{"via", "git", "result", "server_error"}, 1},
		{"volumes", nil, 7},
		{"leases", nil, 5},
		{"subjects", nil, 1},
		{"workspaces", []string{"phase", "checkpoint"}, 2},
		{"disk_bytes", []string{"class", "tree"}, 2000},
		{"disk_inodes", []string{"class", "store"}, 10},
		{"max_size_bytes", nil, 1 << 30},
		{"min_free_ratio", nil, 0.05},
		{"filesystem_free_bytes", nil, 1 << 39},
		{"evictions_total", []string{"kind", "tree", "reason", "max_size"}, 3},
		{"evictions_total", []string{"kind", "git_layer", "reason", "ttl"}, 0},
		{"evicted_bytes_total", []string{"kind", "tree", "reason", "max_size"}, 300},
		{"eviction_failures_total", []string{"reason", "ttl"}, 2},
		{"limits_exceeded", []string{"limit", "subject_max_size"}, 2},
		{"limits_exceeded", []string{"limit", "min_free"}, 0},
		{"sweeps_total", []string{"result", "ok"}, 9},
		{"sweeps_total", []string{"result", "error"}, 1},
		{"last_sweep_timestamp_seconds", nil, 1_700_000_000.5},
		{"build_info", []string{"version", "1.2.3"}, 1},
	} {
		if v := value(t, got, namespace+"_"+tt.name, tt.labels...); v != tt.want {
			t.Errorf("%s%q: got %v, want %v", tt.name, tt.labels, v, tt.want)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "process_network") || strings.Contains(name, "subject_disk") {
			t.Errorf("%s is there", name)
		}
	}
	if got["go_goroutines"] == nil || got["process_resident_memory_bytes"] == nil {
		t.Error("the metrics of Go and of the process are missing")
	}
}

// TestSeriesAreBounded checks that the number of series depends neither on subjects nor on
// what users do, unless subjects are asked for.
func TestSeriesAreBounded(t *testing.T) {
	hostile := []string{"", "a\nb", `a"b\`, "\xff\xfe", "é", strings.Repeat("x", 256), "{}", "# HELP x y", "a\n# TYPE helmdeck_repos_x counter\nhelmdeck_repos_x 1"}
	many := sample()
	for i := range 1000 {
		many.Subjects[fmt.Sprint(hostile[i%len(hostile)], i)] = &Subject{Bytes: int64(i), Leases: i % 3}
	}
	count := func(families map[string]*dto.MetricFamily) (n int) {
		for _, f := range families {
			n += len(f.Metric)
		}
		return n
	}
	few, _ := handler(false, sample)
	none, _ := handler(false, func() Figures { return many })
	if got, want := count(scrape(t, none)), count(scrape(t, few)); got != want {
		t.Errorf("%d series with 1000 subjects, want %d", got, want)
	}
	all, _ := handler(true, func() Figures { return many })
	families := scrape(t, all)
	list := families[namespace+"_subject_disk_bytes"].GetMetric()
	if len(list) != subjectsShown || len(families[namespace+"_subject_leases"].GetMetric()) != subjectsShown {
		t.Errorf("%d subjects have series, want %d", len(list), subjectsShown)
	}
	largest := 0.0
	for _, m := range list {
		largest = max(largest, m.Gauge.GetValue())
	}
	if largest != 3000 || value(t, families, namespace+"_subject_leases", "subject", "default") != 5 {
		t.Errorf("the largest subject has %v bytes, want those of the sample", largest)
	}
	if families[namespace+"_x"] != nil {
		t.Error("a subject has forged a metric")
	}
	same := sample()
	same.Subjects = map[string]*Subject{"\xff": {Bytes: 1}, "\xfe": {Bytes: 2}, "?": {Bytes: 3}}
	h, _ := handler(true, func() Figures { return same })
	if list := scrape(t, h)[namespace+"_subject_disk_bytes"].GetMetric(); len(list) == 0 {
		t.Error("names that are the same as a label break the metric")
	}
}

// TestPanicInFigures checks that the rest is served.
func TestPanicInFigures(t *testing.T) {
	h, c := handler(false, func() Figures { panic("the bug") })
	c.Operation("mount", "", 0, nil)
	got := scrape(t, h)
	if v := value(t, got, namespace+"_mounts_total", "result", "ok"); v != 1 {
		t.Errorf("mounts: %v, want 1", v)
	}
	if got[namespace+"_volumes"] != nil {
		t.Error("there are figures in spite of the panic")
	}
	if v := value(t, scrape(t, h), "promhttp_metric_handler_errors_total", "cause", "gathering"); v < 1 {
		t.Errorf("failed scrapes: %v", v)
	}
}

func TestMethods(t *testing.T) {
	h, _ := handler(false, sample)
	server := httptest.NewServer(h)
	defer server.Close()
	for _, tt := range []struct {
		method string
		want   int
		body   bool
	}{{"GET", 200, true}, {"HEAD", 200, false}, {"POST", 405, true}, {"DELETE", 405, true}, {"CONNECT", 405, true}} {
		r, err := http.NewRequest(tt.method, server.URL+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip, zstd")
		r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,*/*;q=0.1")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.want || err != nil || (len(body) > 0) != tt.body {
			t.Errorf("%s: status %d, %d bytes, %v; want %d", tt.method, resp.StatusCode, len(body), err, tt.want)
		}
		if resp.StatusCode == 200 && (resp.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain; version=0.0.4")) {
			t.Errorf("%s: header %v", tt.method, resp.Header)
		}
		if resp.StatusCode == 405 && resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow %q", tt.method, resp.Header.Get("Allow"))
		}
	}
}

// TestManyScrapes checks that more scrapes than run at a time wait and are answered, and that those at
// the same time read the figures once.
func TestManyScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed, reads := make(chan bool), 0 // the figures are read by one at a time
		h, _ := handler(false, func() Figures {
			reads++
			<-proceed
			return sample()
		})
		codes := make(chan int, 10*concurrent)
		for range cap(codes) {
			go func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				codes <- w.Code
			}()
		}
		synctest.Wait()
		if reads != 1 || len(codes) > 0 {
			t.Errorf("at first the figures were read %d times, and %d scrapes answered", reads, len(codes))
		}
		close(proceed)
		for range cap(codes) {
			if got := <-codes; got != http.StatusOK {
				t.Errorf("status %d", got)
			}
		}
	})
}

// TestScrapeTakesTooLong checks that a scrape that waits too long is refused.
func TestScrapeTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan bool)
		h, _ := handler(false, func() Figures { <-proceed; return sample() })
		w, began := httptest.NewRecorder(), time.Now()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took != scrapeMost {
			t.Errorf("status %d after %v", w.Code, took)
		}
		close(proceed)
	})
}

// TestDocs checks that docs/reference/metrics.md lists exactly the metrics that are served.
func TestDocs(t *testing.T) {
	h, _ := handler(true, sample)
	families := scrape(t, h)
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		if !strings.HasPrefix(name, namespace) {
			continue
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, testpage.Code(l.GetName()))
		}
		rows = append(rows, []string{testpage.Code(name), strings.ToLower(f.Type.String()), strings.Join(labels, ", "), f.GetHelp()})
	}
	testpage.Check(t, "../../../docs/reference/metrics.md", "metrics", testpage.Table([]string{"metric", "type", "labels", "meaning"}, rows))
}
