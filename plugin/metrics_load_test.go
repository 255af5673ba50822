package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/promtool"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// series are the values of a scrape by name and labels, such as `x_total{a="b"}`; of a histogram
// they are the numbers of observations. The prefix of the plugin's names is left out.
type series map[string]float64

// scrape reads the metrics on the admin socket.
func (p *process) scrape() (values series, text string, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(filepath.Dir(p.at.socket), adminSocket))
	}}}
	resp, err := client.Get("http://admin/metrics")
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	var body strings.Builder
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(teeReader{resp.Body, &body})
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	values = make(series)
	for name, f := range families {
		for _, m := range f.Metric {
			values[seriesName(name, m)] = valueOf(m)
		}
	}
	return values, body.String(), err
}

// teeReader is an io.TeeReader.
type teeReader struct {
	from interface{ Read([]byte) (int, error) }
	to   *strings.Builder
}

func (r teeReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.to.Write(p[:n])
	return n, err
}

func seriesName(name string, m *dto.Metric) string {
	name = strings.TrimPrefix(name, "helmdeck_repos_")
	var labels []string
	for _, l := range m.Label {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if len(labels) == 0 {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Summary != nil:
		return float64(m.Summary.GetSampleCount())
	}
	return m.Gauge.GetValue()
}

// sum adds up the series of a metric.
func (s series) sum(metric string) (sum float64) {
	for name, value := range s {
		if name == metric || strings.HasPrefix(name, metric+"{") {
			sum += value
		}
	}
	return sum
}

// tally counts what a test has done, by series.
type tally struct {
	mu   sync.Mutex
	done series
}

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done[name]++
}

// The numbers of TestMetricsOfManyMounts.
const (
	manyMounts  = 1000
	manyClients = 8
	greedyMost  = 30 // SUBJECT_MAX_LEASES
	failures    = 10 // of most kinds
)

// TestMetricsOfManyMounts mounts 1,000 times, and lets requests of each kind fail meanwhile,
// while scrapes come one after the other. In the end the counts are those of what was done.
//
// Not parallel: its mounts must work within MOUNT_WAIT.
func TestMetricsOfManyMounts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	s := testgit.Remote(t, "good", gitserver.Spec{Seed: 1, Files: 20, Commits: 3, Changes: 3})
	for _, name := range []string{"private", "broken", "stalled"} {
		testgit.Generate(t, s, name, gitserver.Spec{Seed: 2, Files: 3, Commits: 1})
	}
	p := start(t, scratch(t), fmt.Sprintf("SUBJECT_MAX_LEASES=%d", greedyMost), "METRICS_SUBJECTS=true", "ASK_TIMEOUT=1h",
		"MOUNT_WAIT=12s") // longer than the tries of a question
	did := &tally{done: make(series)}
	kind := func(err error) string {
		if err == nil {
			return "ok"
		}
		return "error"
	}
	create := func(name, result string, options map[string]string) {
		if err := p.tryCreate(name, options); (err == nil) != (result == "ok") {
			t.Errorf("create %q: %v, want %s", name, err, result)
		}
		did.add(fmt.Sprintf("creates_total{result=%q}", result))
	}
	mount := func(ctx context.Context, name, id, result string) {
		_, err := p.Mount(ctx, name, id)
		if (err == nil) != (result == "ok") {
			t.Errorf("mount %q: %v, want %s", name, err, result)
		}
		did.add(fmt.Sprintf("mounts_total{result=%q}", result))
		did.add(fmt.Sprintf("mount_duration_seconds{result=%q}", kind(err)))
	}
	unmount := func(name, id string) {
		if err := p.Unmount(t.Context(), name, id); err != nil {
			t.Errorf("unmount %q: %v", name, err)
		}
		did.add(`unmounts_total{result="ok"}`)
	}

	volumes := make([]string, 4)
	for i, mode := range []string{"private", "private", "shared", "private"} {
		volumes[i] = fmt.Sprint("v", i)
		create(volumes[i], "ok", map[string]string{"repo": s.URL("good"), "mode": mode, "subject": fmt.Sprint("s", i%2), "refresh": "1h"})
	}
	create("asks", "ok", map[string]string{"repo": s.URL("good"), "subject": "asks"})
	create("greedy", "ok", map[string]string{"repo": s.URL("good"), "subject": `gr"ee\dy`, "refresh": "1h"})
	first := func(name string, options map[string]string) {
		create(name, "ok", options)
		mount(t.Context(), name, "first", "ok")
		unmount(name, "first")
	}
	for _, name := range []string{"private", "broken", "stalled"} {
		first(name, map[string]string{"repo": s.URL(name)})
	}
	var slow []string
	for i := range failures {
		// Each of another repository, because questions about a clone are shared, and are asked again after a while.
		name := fmt.Sprint("impatient", i)
		slow = append(slow, name)
		testgit.Generate(t, s, name, gitserver.Spec{Seed: 2, Files: 3, Commits: 1})
		first(name, map[string]string{"repo": s.URL(name)})
	}
	asked := func(repos ...string) (n float64) { // what remotes were asked, as they count it
		for _, repo := range repos {
			n += float64(s.Stats(repo).LsRefs)
		}
		return n
	}
	answered := `remote_questions_total{result="ok",via="http"}`
	before, _, err := p.scrape()
	if want := asked("good", "private", "broken", "stalled") + asked(slow...); err != nil || before[answered] != want {
		t.Fatalf("%s: got %v, %v; the remotes were asked %v times", answered, before[answered], err, want)
	}
	before[answered] -= asked("good", "stalled") + asked(slow...)
	gate := gitserver.NewGate()
	s.Route("private", gitserver.Fail(http.StatusUnauthorized))
	s.Route("broken", gitserver.Fail(http.StatusServiceUnavailable))
	s.Route("stalled", gate.Fault)

	ended := make(chan struct{})
	var scraping, all sync.WaitGroup
	scraping.Go(func() { monotonous(t, p, ended) })
	for client := range manyClients {
		all.Go(func() {
			for i := client; i < manyMounts; i += manyClients {
				name, id := volumes[i%len(volumes)], fmt.Sprint("container", i)
				if i%10 == 0 {
					name = "asks"
				}
				mount(t.Context(), name, id, "ok")
				unmount(name, id)
			}
		})
	}
	all.Go(func() {
		for i := range greedyMost {
			mount(t.Context(), "greedy", fmt.Sprint(i), "ok")
		}
		for i := range failures {
			mount(t.Context(), "greedy", fmt.Sprint("more", i), "exhausted")
		}
	})
	for i := range failures {
		all.Go(func() { mount(t.Context(), "none", fmt.Sprint(i), "not_found") })
		all.Go(func() { mount(t.Context(), volumes[0], fmt.Sprint("x#", i), "invalid") })
		all.Go(func() { mount(t.Context(), "private", fmt.Sprint(i), "denied") })
		all.Go(func() { mount(t.Context(), "broken", fmt.Sprint(i), "unavailable") })
		all.Go(func() {
			create("v0", "exists", map[string]string{"repo": s.URL("good"), "ref": fmt.Sprint("other", i)})
			create(fmt.Sprint("new", i), "invalid", map[string]string{"repo": s.URL("good"), "nonsense": "1"})
			create(fmt.Sprint("new", i), "not_found", map[string]string{"repo": s.URL("nothing")})
		})
	}
	all.Go(func() { mount(t.Context(), "stalled", "late", "unfinished") })
	<-gate.Arrived
	for _, name := range slow {
		asks := gitserver.Gate{Arrived: make(chan struct{}, 1000), Open: gate.Open}
		s.Route(name, asks.Fault)
		ctx, hangUp := context.WithCancel(t.Context())
		all.Go(func() { mount(ctx, name, "1", "canceled") })
		<-asks.Arrived
		hangUp()
	}
	all.Wait()
	close(gate.Open)
	for range failures {
		if err := p.Remove(t.Context(), "greedy"); err == nil {
			t.Error("a volume was removed that is mounted")
		}
		did.add(`removes_total{result="in_use"}`)
	}
	if err := p.Remove(t.Context(), "private"); err != nil {
		t.Error(err)
	}
	did.add(`removes_total{result="ok"}`)

	var got series
	var text string
	var wrong []string
	defer func() {
		for _, text := range wrong {
			t.Log(text)
		}
	}()
	// The plugin notices that a client has hung up after the client knows it.
	wait.For(t, "the counts of what was done", func() error {
		var err error
		if got, text, err = p.scrape(); err != nil {
			t.Fatal(err)
		}
		wrong = differences(got, did.done)
		if n := asked("good", "stalled") + asked(slow...); got[answered]-before[answered] != n {
			wrong = append(wrong, fmt.Sprintf("%s: got %v more, the remotes answered %v times", answered, got[answered]-before[answered], n))
		}
		return wait.Check(len(wrong) == 0, "%v", wrong)
	})
	close(ended)
	scraping.Wait()
	// Scrapes at the same time share a reading of the gauges, which may be older than the counts.
	if got, text, err = p.scrape(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"leases": greedyMost, "workspaces{phase=\"mounted\"}": greedyMost, "volumes": 8 + failures, "clones": 7 + failures,
		`subject_leases{subject="gr\"ee\\dy"}`: greedyMost, `subject_leases{subject="s0"}`: 0, "start_repair_done": 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: got %v, want %v", name, v, want)
		}
	}
	if n := got[`remote_fetches_total{result="ok",via="http"}`] + got[`remote_fetches_total{result="ok",via="git"}`]; n != 7+failures {
		t.Errorf("%v fetches, want one for each clone", n)
	}
	for _, name := range []string{
		`remote_questions_total{result="authentication_failed",via="git"}`, `remote_questions_total{result="server_error",via="git"}`,
		`remote_questions_total{result="repository_not_found",via="git"}`, `remote_questions_total{result="fallback",via="http"}`,
		`git_commands_total{command="job",result="ok"}`, `git_commands_total{command="remote-http",result="server_error"}`,
	} {
		if got[name] == 0 {
			t.Errorf("%s is 0", name)
		}
	}
	if mounts := got.sum("mounts_total") - got[`mounts_total{result="not_found"}`] - got[`mounts_total{result="invalid"}`]; got[`mount_phase_duration_seconds{phase="mount"}`] < manyMounts+greedyMost ||
		got[`mount_phase_duration_seconds{phase="resolve"}`] > mounts {
		t.Errorf("%v mounts, with the phases mount %v and resolve %v", mounts, got[`mount_phase_duration_seconds{phase="mount"}`], got[`mount_phase_duration_seconds{phase="resolve"}`])
	}
	promtool.Run(t, text, "check", "metrics")
	if t.Failed() {
		t.Log(text)
	}
}

// monotonous scrapes until ended is closed, and checks that no counter falls.
func monotonous(t *testing.T, p *process, ended <-chan struct{}) {
	last := make(series)
	for n := 0; ; n++ {
		now, _, err := p.scrape()
		if err != nil {
			t.Errorf("scrape %d: %v", n, err)
			return
		}
		for name, value := range last {
			if metric, _, _ := strings.Cut(name, "{"); (strings.HasSuffix(metric, "_total") || strings.HasSuffix(metric, "_duration_seconds") && !strings.HasPrefix(metric, "last_") && !strings.HasPrefix(metric, "figures_")) && now[name] < value {
				t.Errorf("scrape %d: %s fell from %v to %v", n, name, value, now[name])
			}
		}
		last = now
		select {
		case <-ended:
			if n < 3 {
				t.Errorf("%d scrapes", n)
			}
			return
		default:
		}
	}
}

// differences compares the counts of requests with those of what was done.
func differences(got, done series) (wrong []string) {
	for _, metric := range []string{"creates_total", "mounts_total", "unmounts_total", "removes_total", "mount_duration_seconds"} {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if strings.HasPrefix(name, metric+"{") && got[name] != done[name] {
				wrong = append(wrong, fmt.Sprintf("%s: got %v, done %v", name, got[name], done[name]))
			}
		}
	}
	return wrong
}
