package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/work/phase"
)

// namespace begins the names of all metrics except those of Go and the process.
const namespace = "helmdeck_repos"

// The values of the label result that are no kind of error.
const (
	resultOK    = "ok"
	resultError = "error"
)

// opMount is the request of the engine of which more is counted than its result.
const opMount = "mount"

// Codes are the names of the codes of csi_calls_total. They are repeated here, because package csi, whose codes they are,
// would bring grpc-go into the plugin for Docker.
var Codes = []string{
	"ok", "canceled", "invalid_argument", "deadline_exceeded", "not_found", "already_exists", "permission_denied", "resource_exhausted",
	"failed_precondition", "aborted", "unimplemented", "internal", "unavailable",
}

// mountBuckets are in seconds. A warm mount takes some 10 ms, and no mount longer than the
// largest MOUNT_WAIT.
var mountBuckets = []float64{.005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 120}

// remoteBuckets are in seconds. A question on an open connection takes one round trip, and
// the fetch of a large repository minutes.
var remoteBuckets = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 300, 1800}

// Counters counts what happens, from the start of the process. Its methods never block, and
// are safe for concurrent use.
type Counters struct {
	all []prometheus.Collector

	operations map[string]*prometheus.CounterVec // by what the engine asks for
	csi        *prometheus.CounterVec            // by operation and code
	mounts     *prometheus.HistogramVec          // by result
	phases     *prometheus.HistogramVec          // by phase
	commands   *prometheus.CounterVec            // by command and result
	seconds    *prometheus.CounterVec            // by command
	questions  *prometheus.CounterVec            // by via and result
	asked      *prometheus.HistogramVec
	fetches    *prometheus.CounterVec // by via and result
	fetched    *prometheus.HistogramVec
	handouts   *prometheus.CounterVec // by result

	checkpoints *prometheus.CounterVec   // by made and result
	passes      *prometheus.HistogramVec // by pass
	copied      *prometheus.CounterVec   // by how
	forks       *prometheus.CounterVec
	rewinds     *prometheus.CounterVec // by result
}

// NewCounters returns Counters. The series exist from the start, because Prometheus sees no
// increase in one that begins with 1.
func NewCounters() *Counters {
	c := &Counters{operations: make(map[string]*prometheus.CounterVec)}
	for op, help := range map[string]string{
		"create": "Requests of the engine to make a volume.", opMount: "Requests of the engine to mount a volume.",
		"unmount": "Requests of the engine to unmount a volume.", "remove": "Requests of the engine to remove a volume.",
	} {
		c.operations[op] = c.counter(op+"s_total", help, "result")
	}
	c.csi = c.counter("csi_calls_total",
		"Calls of kubelet to publish a volume for a pod, and to unpublish it, by the code of the answer. After aborted, unavailable, "+
			"resource_exhausted, canceled and deadline_exceeded it calls again.", "operation", "code")
	c.mounts = c.histogram("mount_duration_seconds", "How long mounts took, from the engine's request to the answer.", mountBuckets, "result")
	c.phases = c.histogram("mount_phase_duration_seconds",
		"How long mounts took for each phase that they had, with the time in which they waited for shared work. What only a build fetches "+
			"(submodules, LFS objects, files of partial clones) is in the phase build.", mountBuckets, "phase")
	c.commands = c.counter("git_commands_total", "Runs of git, and of this program for a repository (command=\"job\").", "command", "result")
	c.seconds = c.counter("git_command_seconds_total", "How long the runs of git_commands_total took in sum.", "command")
	c.questions = c.counter("remote_questions_total",
		"Questions to remotes for their refs, after all tries: of the plugin itself (via=\"http\") or of a git process (via=\"git\"). "+
			"After result=\"fallback\", git asked too.", "via", "result")
	c.asked = c.histogram("remote_question_duration_seconds", "How long the questions of remote_questions_total took.", remoteBuckets)
	c.fetches = c.counter("remote_fetches_total",
		"Fetches of git objects from remotes, after all tries, with the labels of remote_questions_total.", "via", "result")
	c.fetched = c.histogram("remote_fetch_duration_seconds", "How long the fetches of remote_fetches_total took, with the time in which they waited for their turn.", remoteBuckets)
	c.handouts = c.counter("credential_handouts_total", "Questions of git in containers for the credential of their volume (auth=container).", "result")

	c.makeCheckpoints()

	for _, counter := range c.operations {
		for _, kind := range append(verbs.Kinds(), resultOK) {
			counter.WithLabelValues(label(kind))
		}
	}
	for _, op := range []string{"publish", "unpublish"} {
		for _, code := range Codes {
			c.csi.WithLabelValues(op, code)
		}
	}
	for _, result := range []string{resultOK, resultError} {
		c.mounts.WithLabelValues(result)
	}
	for p := range phase.Count {
		c.phases.WithLabelValues(p.String())
	}
	for _, name := range git.CommandNames() {
		c.commands.WithLabelValues(name, label(giterror.KindOK))
		c.seconds.WithLabelValues(name)
	}
	for _, counter := range []*prometheus.CounterVec{c.questions, c.fetches} {
		for _, kind := range giterror.Kinds() {
			counter.WithLabelValues(git.ThroughGit, label(kind))
			counter.WithLabelValues(git.ThisProcess, label(kind))
		}
		counter.WithLabelValues(git.ThisProcess, label(giterror.KindFallback))
	}
	for _, result := range handout.Results() {
		c.handouts.WithLabelValues(label(result))
	}
	c.asked.WithLabelValues()
	c.fetched.WithLabelValues()
	return c
}

func (c *Counters) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	c.all = append(c.all, v)
	return v
}

func (c *Counters) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	c.all = append(c.all, v)
	return v
}

// Operation counts a request of the engine, one of those above, that ended with a kind of error, or well. See
// driver.Config.Observe.
func (c *Counters) Operation(op string, kind verbs.Kind, took time.Duration, phases map[phase.Phase]time.Duration) {
	result, short := resultOK, resultOK
	if kind != "" {
		result, short = label(kind), resultError
	}
	c.operations[op].WithLabelValues(result).Inc()
	if op != opMount {
		return
	}
	c.mounts.WithLabelValues(short).Observe(took.Seconds())
	for p, took := range phases {
		c.phases.WithLabelValues(p.String()).Observe(took.Seconds())
	}
}

// CSI counts a call of kubelet: see csi.Config.Observe.
func (c *Counters) CSI(op, code string) { c.csi.WithLabelValues(op, code).Inc() }

// Git counts what was done for a repository: see git.Config.Observe.
func (c *Counters) Git(e git.Event) {
	result, took := label(e.Kind), e.Took.Seconds()
	switch e.What {
	case git.RanCommand:
		c.commands.WithLabelValues(e.Via, result).Inc()
		c.seconds.WithLabelValues(e.Via).Add(took)
	case git.AskedRemote:
		c.questions.WithLabelValues(e.Via, result).Inc()
		c.asked.WithLabelValues().Observe(took)
	case git.FetchedRemote:
		c.fetches.WithLabelValues(e.Via, result).Inc()
		c.fetched.WithLabelValues().Observe(took)
	}
}

// Handout counts a question for a credential: see handout.Config.Observe.
func (c *Counters) Handout(e handout.Event) { c.handouts.WithLabelValues(label(e.Result)).Inc() }

// label returns a kind or a reason as the value of a label: "can't be used" is cant_be_used.
func label[T ~string](kind T) string {
	return strings.Join(slices.Collect(strings.FieldsSeq(strings.ReplaceAll(string(kind), "'", ""))), "_")
}
