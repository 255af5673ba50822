package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/journal"
	"github.com/helmdeck/repos/internal/clone"
)

// logged returns the API of a plugin whose log has lines about two volumes of one clone.
func logged(t *testing.T) (*api.Client, *logrus.Logger) {
	t.Helper()
	config := populated()
	config.Journal = journal.New()
	config.Log.AddHook(config.Journal)
	o := options("team a", "https://h/x")
	key := clone.Key(o.Subject, o.Repo)
	for _, fields := range []logrus.Fields{
		{}, {"volume": "v"}, {"volume": "w", "clone": key}, {"clone": key}, {"clone": key, "volume_id": "other"}, {"clone": "another"},
	} {
		config.Log.WithFields(fields).Info(fmt.Sprint("fields: ", fields))
	}
	return client(t, config), config.Log
}

func readLogs(t *testing.T, c *api.Client, f api.LogFilter) string {
	t.Helper()
	var seqs []string
	if err := c.Logs(t.Context(), f, func(l api.LogLine) error {
		seqs = append(seqs, fmt.Sprint(l.Seq))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(seqs, " ")
}

// TestLogs checks which lines each filter selects.
func TestLogs(t *testing.T) {
	c, _ := logged(t)
	for _, tt := range []struct {
		filter api.LogFilter
		want   string
	}{
		{api.LogFilter{}, "1 2 3 4 5 6"},
		{api.LogFilter{Tail: 2}, "5 6"},
		{api.LogFilter{Tail: 200}, "1 2 3 4 5 6"},
		{api.LogFilter{Volume: "v"}, "2 4"},
		{api.LogFilter{Volume: "v", Tail: 1}, "4"},
		{api.LogFilter{Volume: "w"}, "3"}, // it is gone, so its clone is unknown
		{api.LogFilter{Since: time.Now().Add(time.Hour)}, ""},
		{api.LogFilter{Since: time.Now().Add(-time.Hour)}, "1 2 3 4 5 6"},
		{api.LogFilter{Until: time.Now().Add(-time.Hour)}, ""},
	} {
		if got := readLogs(t, c, tt.filter); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.filter, got, tt.want)
		}
	}
	var refused *api.Error
	err := c.Logs(t.Context(), api.LogFilter{Volume: "unknown"}, nil)
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("an unknown volume: %v", err)
	}
	for _, query := range []string{"tail=0", "tail=x", "tail=10001", "since=yesterday", "follow=maybe", "lines=1"} {
		w := httptest.NewRecorder()
		Handler(populated()).ServeHTTP(w, httptest.NewRequest("GET", "/v1/logs?"+query, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", query, w.Code, w.Body)
		}
	}
}

// TestFollowLogs checks that a follower gets the known lines, and then each new one about its volume.
func TestFollowLogs(t *testing.T) {
	c, log := logged(t)
	ctx, cancel := context.WithCancel(t.Context())
	var got []int64
	err := c.Logs(ctx, api.LogFilter{Volume: "v", Tail: 1, Follow: true}, func(l api.LogLine) error {
		got = append(got, l.Seq)
		switch l.Seq {
		case 4:
			log.WithField("volume", "w").Info("another volume")
			log.WithField("volume", "v").Info("new")
		case 8:
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || fmt.Sprint(got) != "[4 8]" {
		t.Errorf("got %v, %v", got, err)
	}
}
