package prebuild

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics has the metrics of a Batch. It is safe for concurrent use.
type Metrics struct {
	mu   sync.Mutex
	jobs map[string]*moments // by key
}

// moments are when a job was found ready last, and when it failed last. They are zero if it never was.
type moments struct {
	labels        []string
	ready, failed time.Time
}

// NewMetrics returns the metrics of jobs of which nothing is known yet.
func NewMetrics(jobs []Job) *Metrics {
	m := &Metrics{jobs: make(map[string]*moments)}
	for _, j := range jobs {
		m.jobs[j.key()] = &moments{labels: []string{j.Repo, j.options()}}
	}
	return m
}

// Note takes a report into account.
func (m *Metrics) Note(r Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch at := m.jobs[r.Job.key()]; r.State {
	case Ready:
		at.ready = r.Time
	case Failed:
		at.failed = r.Time
	}
}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("helmdeck_repos_prebuild_"+name, help, []string{"repo", "options"}, nil)
}

var (
	readyDesc  = describe("ready_timestamp_seconds", "When the state of a repository was found or made last; 0: never.")
	failedDesc = describe("failed_timestamp_seconds", "When that failed last; 0: never.")
	ageDesc    = describe("age_seconds", "How long it is since the state was found or made; there is none before the first time.")
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readyDesc, failedDesc, ageDesc} {
		all <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(all chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.jobs {
		gauge := func(d *prometheus.Desc, value float64) {
			all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, at.labels...)
		}
		gauge(readyDesc, seconds(at.ready))
		gauge(failedDesc, seconds(at.failed))
		if !at.ready.IsZero() {
			gauge(ageDesc, time.Since(at.ready).Seconds())
		}
	}
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
