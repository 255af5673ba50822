package metrics

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/sirupsen/logrus"
)

// Config is what a Handler shows.
type Config struct {
	Counters *Counters
	// Figures is called at each scrape, one call at a time.
	Figures func() Figures
	// Subjects adds metrics by subject.
	Subjects bool
	Version  string // of the plugin
	Log      *logrus.Logger
}

const (
	// concurrent bounds the scrapes at a time; others wait. Those at the same time share one
	// reading of the figures.
	concurrent = 4
	// scrapeMost is how long a scrape may take, and as long again its answer to be written.
	scrapeMost = 10 * time.Second
)

// Handler returns the handler of GET /metrics. It writes to a client that reads slowly for
// ten seconds, and holds no lock and no place of another scrape meanwhile.
func Handler(c Config) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, with the versions of the plugin and of Go.",
	}, []string{"version", "goversion"})
	info.WithLabelValues(strings.ToValidUTF8(c.Version, "?"), runtime.Version()).Set(1)
	registry.MustRegister(info, newCollector(c.Figures, figures(c.Subjects)),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(c.Counters.all...)
	scrape := promhttp.HandlerFor(withoutNetwork{registry}, promhttp.HandlerOpts{
		ErrorLog: logger{c.Log}, ErrorHandling: promhttp.ContinueOnError, Registry: registry, DisableCompression: true,
		CoalesceGather:  true,
		AcceptedFormats: []expfmt.Format{expfmt.NewFormat(expfmt.TypeTextPlain)},
	})
	places := make(chan struct{}, concurrent)
	// The answer is written when the place is free again, because TimeoutHandler keeps it until then.
	inTurn := http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			scrape.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}), scrapeMost, fmt.Sprintf("the scrape took longer than %v", scrapeMost))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		// A writer that can't have a deadline, as in a test, is no reason to fail.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * scrapeMost))
		inTurn.ServeHTTP(w, r)
	})
}

// withoutNetwork leaves out the traffic of the process, which is that of the whole machine,
// because the plugin has its network.
type withoutNetwork struct{ prometheus.Gatherer }

func (g withoutNetwork) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return strings.HasPrefix(f.GetName(), "process_network_")
	}), err
}

// logger logs the errors of scrapes.
type logger struct{ *logrus.Logger }

func (l logger) Println(v ...any) {
	l.Warn("metrics: ", strings.TrimSuffix(fmt.Sprintln(v...), "\n"))
}
