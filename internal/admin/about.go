package admin

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/helmdeck/repos/api"
)

func (c Config) settings(*http.Request) (any, error) { return list{"settings": c.Settings}, nil }

func (c Config) version(*http.Request) (any, error) {
	v := api.Version{
		API: "v1", Version: c.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, StartedAt: c.Started.UTC(),
		Build: map[string]string{}, Modules: map[string]string{},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v, nil
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Revision = s.Value
		case s.Key == "vcs.modified":
			v.Modified = s.Value == "true"
		case !strings.HasPrefix(s.Key, "-"): // flags have paths of the machine that built it
			v.Build[s.Key] = s.Value
		}
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		v.Modules[m.Path] = m.Version
	}
	return v, nil
}
