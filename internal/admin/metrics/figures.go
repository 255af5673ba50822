package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/escape"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/janitor"
)

// Figures are the values of one scrape that the parts of the plugin keep.
type Figures struct {
	Volumes, Clones, Leases int
	Workspaces              map[string]int // by phase
	Filled                  map[int]int    // workspaces with a limit that have filled at least so many percent of it
	// Disk says what clones and workspaces take, by class, as far as it was measured.
	Disk     map[string]disk.Size
	Subjects map[string]*Subject
	Checkpoints

	Trash, Stuck   disk.Size // being deleted; not deletable
	Own            disk.Size // of the plugin's own files
	TrashEntries   int
	Space          disk.Space // of the data directory's filesystem; the zero value: unknown
	Limits         janitor.Limits
	MaxLeases      int // of a subject
	Janitor        janitor.Stats
	Work           [3]work.Load // by work.Kind
	Shared         int          // pieces of work that run now
	Swept, Damaged bool         // the start's repair has ended; not everything could be repaired

	shown []namedSubject // see largest
}

// Subject has the values of a subject.
type Subject struct {
	Bytes  int64
	Leases int
}

// Subject returns the values of a subject, for additions.
func (f *Figures) Subject(name string) *Subject {
	s := f.Subjects[name]
	if s == nil {
		s = &Subject{}
		f.Subjects[name] = s
	}
	return s
}

// subjectsShown bounds the number of subjects with series of their own.
const subjectsShown = 100

// put adds a series to a metric.
type put func(value float64, labels ...string)

// figure is a metric that is read from Figures.
type figure struct {
	name, help string
	labels     []string
	kind       prometheus.ValueType
	read       func(f *Figures, put put)
}

func gauge(name, help string, read func(f *Figures) float64) figure {
	return figure{name, help, nil, prometheus.GaugeValue, func(f *Figures, put put) { put(read(f)) }}
}

// figures are all metrics that are read from Figures.
func figures(subjects bool) []figure {
	list := slices.Concat(stocks(), checkpoints(), space(), eviction(), load())
	if subjects {
		list = append(list, bySubject()...)
	}
	return list
}

func stocks() []figure {
	return []figure{
		gauge("volumes", "Volumes.", func(f *Figures) float64 { return float64(f.Volumes) }),
		gauge("clones", "Clones on disk.", func(f *Figures) float64 { return float64(f.Clones) }),
		gauge("leases", "Mounts that were not unmounted.", func(f *Figures) float64 { return float64(f.Leases) }),
		gauge("subjects", "Subjects with a clone or a workspace.", func(f *Figures) float64 { return float64(len(f.Subjects)) }),
		{"workspaces", "Workspaces by phase; others can begin with those of the phase checkpoint.", []string{"phase"}, prometheus.GaugeValue, func(f *Figures, put put) {
			for phase, n := range f.Workspaces {
				put(float64(n), phase)
			}
		}},
		{"limited_workspaces", "Workspaces with a limit (size, inodes) that have filled at least so many percent of it, of bytes or inodes; with 0, all of them.",
			[]string{"filled"}, prometheus.GaugeValue, func(f *Figures, put put) {
				for _, percent := range []int{0, 90, 100} {
					put(float64(f.Filled[percent]), strconv.Itoa(percent))
				}
			}},
	}
}

func space() []figure {
	return []figure{
		{"disk_bytes", "What clones and workspaces take on disk, by class, as far as it was measured. MAX_SIZE limits the sum, with trash_bytes, trash_stuck_bytes and own_bytes.", []string{"class"}, prometheus.GaugeValue, func(f *Figures, put put) {
			for class, size := range f.Disk {
				put(float64(size.Bytes), class)
			}
		}},
		{"disk_inodes", "The inodes that clones and workspaces take, by class.", []string{"class"}, prometheus.GaugeValue, func(f *Figures, put put) {
			for class, size := range f.Disk {
				put(float64(size.Inodes), class)
			}
		}},
		gauge("evictable_bytes", "How much of the sum of disk_bytes could be evicted after the last sweep. The rest is in use or kept.", func(f *Figures) float64 { return float64(f.Janitor.Last.Left.Evictable.Bytes) }),
		gauge("max_size_bytes", "The setting MAX_SIZE; 0 for no limit.", func(f *Figures) float64 { return float64(f.Limits.MaxSize) }),
		gauge("subject_max_size_bytes", "The setting SUBJECT_MAX_SIZE; 0 for no limit.", func(f *Figures) float64 { return float64(f.Limits.SubjectMaxSize) }),
		gauge("subject_max_leases", "The setting SUBJECT_MAX_LEASES; 0 for no limit.", func(f *Figures) float64 { return float64(f.MaxLeases) }),
		gauge("min_free_ratio", "The setting MIN_FREE; 0 for no limit.", func(f *Figures) float64 { return f.Limits.MinFree }),
		gauge("trash_bytes", "The size of what is being deleted, as far as it is known.", func(f *Figures) float64 { return float64(f.Trash.Bytes) }),
		gauge("own_bytes", "What the database and the reserve for removals on a full disk take.", func(f *Figures) float64 { return float64(f.Own.Bytes) }),
		gauge("trash_entries", "How many directories are being deleted.", func(f *Figures) float64 { return float64(f.TrashEntries) }),
		gauge("trash_stuck_bytes", "The size of what could not be deleted since the start, or not yet.", func(f *Figures) float64 { return float64(f.Stuck.Bytes) }),
		ofSpace("filesystem_size_bytes", "The size of the filesystem of the data directory.", func(s disk.Space) int64 { return s.Total.Bytes }),
		ofSpace("filesystem_free_bytes", "What is free of the filesystem of the data directory.", func(s disk.Space) int64 { return s.Free.Bytes }),
		ofSpace("filesystem_inodes", "The inodes of the filesystem of the data directory; 0 if it does not count them.", func(s disk.Space) int64 { return s.Total.Inodes }),
		ofSpace("filesystem_free_inodes", "The free inodes of the filesystem of the data directory.", func(s disk.Space) int64 { return s.Free.Inodes }),
	}
}

func ofSpace(name, help string, value func(disk.Space) int64) figure {
	return figure{name, help, nil, prometheus.GaugeValue, func(f *Figures, put put) {
		if f.Space.Total.Bytes > 0 {
			put(float64(value(f.Space)))
		}
	}}
}

func eviction() []figure {
	evicted := func(value func(janitor.Count) int64) func(f *Figures, put put) {
		return func(f *Figures, put put) {
			for _, kind := range janitor.EvictableKinds() {
				for _, reason := range janitor.Reasons() {
					put(float64(count(f, janitor.Evicted, &kind, reason, value)), label(kind.String()), string(reason))
				}
			}
		}
	}
	times := func(c janitor.Count) int64 { return c.Times }
	return []figure{
		{"evictions_total", "Evictions by the kind of what was evicted, and by reason.", []string{"kind", "reason"}, prometheus.CounterValue, evicted(times)},
		{"evicted_bytes_total", "The sizes of what was evicted.", []string{"kind", "reason"}, prometheus.CounterValue,
			evicted(func(c janitor.Count) int64 { return c.Size.Bytes })},
		{"eviction_failures_total", "Evictions that failed.", []string{"reason"}, prometheus.CounterValue, func(f *Figures, put put) {
			for _, reason := range janitor.Reasons() {
				put(float64(count(f, janitor.NotEvicted, nil, reason, times)), string(reason))
			}
		}},
		{"limits_exceeded", "How many limits stayed exceeded after the last sweep, because what is left can't be evicted; of subject_max_size, the number of subjects.",
			[]string{"limit"}, prometheus.GaugeValue, func(f *Figures, put put) {
				for _, limit := range []janitor.Reason{janitor.MaxSize, janitor.SubjectMaxSize, janitor.MinFree} {
					n := 0
					for _, m := range f.Janitor.Last.Left.Missing {
						if m.Reason == limit {
							n++
						}
					}
					put(float64(n), string(limit))
				}
			}},
		gauge("findings", "Problems that eviction can't solve, as of the last sweep: docker repos df lists them.",
			func(f *Figures) float64 { return float64(len(f.Janitor.Findings)) }),
		{"sweeps_total", "Sweeps of the janitor.", []string{"result"}, prometheus.CounterValue, func(f *Figures, put put) {
			put(float64(f.Janitor.Sweeps), resultOK)
			put(float64(f.Janitor.FailedSweeps), resultError)
		}},
		gauge("last_sweep_timestamp_seconds", "When the last successful sweep began; 0 before the first.", func(f *Figures) float64 {
			if began := f.Janitor.Last.Began; !began.IsZero() {
				return float64(began.UnixMilli()) / 1000
			}
			return 0
		}),
		gauge("last_sweep_duration_seconds", "How long the last successful sweep took.", func(f *Figures) float64 { return f.Janitor.Last.Took.Seconds() }),
		gauge("start_repair_done", "1 after the repair of what an earlier run left, which begins with the plugin.", func(f *Figures) float64 { return truth(f.Swept) }),
		gauge("start_repair_failed", "1 if not everything could be repaired: the next start tries again.", func(f *Figures) float64 { return truth(f.Damaged) }),
	}
}

// count returns the sum of a value over the events of a type and a reason, and of a kind if it is
// not nil.
func count(f *Figures, t janitor.EventType, kind *janitor.Kind, reason janitor.Reason, value func(janitor.Count) int64) (sum int64) {
	for _, c := range f.Janitor.Counts {
		if c.Type == t && c.Reason == reason && (kind == nil || c.Kind != nil && *c.Kind == *kind) {
			sum += value(c)
		}
	}
	return sum
}

func load() []figure {
	byKind := func(name, help string, value func(work.Load) float64) figure {
		return figure{name, help, []string{"kind"}, prometheus.GaugeValue, func(f *Figures, put put) {
			for k, l := range f.Work {
				put(value(l), work.Kind(k).String())
			}
		}}
	}
	return []figure{
		byKind("work_slots", "How much heavy work of a kind may run at a time: on a processor (cpu), fetches, questions to remotes. "+
			"If some takes long, more may run.", func(l work.Load) float64 { return float64(l.Slots) }),
		byKind("work_running", "How much heavy work of a kind runs.", func(l work.Load) float64 { return float64(l.Held) }),
		byKind("work_waiting", "How much heavy work of a kind waits for its turn.", func(l work.Load) float64 { return float64(l.Waiting) }),
		byKind("work_longest_wait_seconds", "How long the oldest heavy work of a kind that waits for its turn has waited.", func(l work.Load) float64 { return l.Longest.Seconds() }),
		gauge("work_shared", "Pieces of work that run now, each for all requests that want its result.", func(f *Figures) float64 { return float64(f.Shared) }),
	}
}

func bySubject() []figure {
	metric := func(name, help string, value func(*Subject) float64) figure {
		return figure{name, help, []string{"subject"}, prometheus.GaugeValue, func(f *Figures, put put) {
			for _, s := range f.largest() {
				put(value(s.Subject), escape.Name(s.name))
			}
		}}
	}
	return []figure{
		metric("subject_disk_bytes", "What a subject's clones and workspaces take on disk. Only the 100 largest subjects have series.",
			func(s *Subject) float64 { return float64(s.Bytes) }),
		metric("subject_leases", "A subject's mounts that were not unmounted. Only the 100 largest subjects have series.",
			func(s *Subject) float64 { return float64(s.Leases) }),
	}
}

type namedSubject struct {
	name string
	*Subject
}

// largest returns the largest subjects.
func (f *Figures) largest() []namedSubject {
	if f.shown != nil {
		return f.shown
	}
	list := make([]namedSubject, 0, len(f.Subjects))
	for name, s := range f.Subjects {
		list = append(list, namedSubject{name, s})
	}
	slices.SortFunc(list, func(a, b namedSubject) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Leases, a.Leases), strings.Compare(a.name, b.name))
	})
	f.shown = list[:min(len(list), subjectsShown)]
	return f.shown
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collector makes the metrics of each scrape from Figures. It implements
// prometheus.Collector.
type collector struct {
	read    func() Figures
	figures []figure
	descs   []*prometheus.Desc
	took    *prometheus.Desc
}

func newCollector(read func() Figures, list []figure) *collector {
	c := &collector{read: read, figures: list}
	for _, f := range list {
		c.descs = append(c.descs, prometheus.NewDesc(prometheus.BuildFQName(namespace, "", f.name), f.help, f.labels, nil))
	}
	c.took = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "figures_duration_seconds"), "How long this scrape took to read the figures of the plugin.", nil, nil)
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		descs <- d
	}
	descs <- c.took
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	began := time.Now()
	values := c.read()
	for i, f := range c.figures {
		f.read(&values, func(value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(c.descs[i], f.kind, value, labels...)
		})
	}
	metrics <- prometheus.MustNewConstMetric(c.took, prometheus.GaugeValue, time.Since(began).Seconds())
}
