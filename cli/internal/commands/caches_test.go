package commands

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

const ciClone, evClone = "ci/0123456789abcdef", "ev/fedcba9876543210"

// caching is an admin socket with two clones and three caches. It adds what is dropped to the list.
func caching(dropped *[]string) fake {
	all := []api.Cache{
		{Clone: ciClone, Subject: "ci", Repo: "https://example.com/small", UID: 0, Size: api.Size{Bytes: 1 << 20, Inodes: 9}, Layers: 2, PublishedAt: time.Now().Add(-time.Hour)},
		{Clone: ciClone, Subject: "ci", Repo: "https://example.com/small", UID: 1000, GID: 5, Size: api.Size{Bytes: 68 << 10}},
		{Clone: evClone, Subject: "ev\x1b[2Jil", Repo: "https://example.com/x", UID: 1000, Size: api.Size{Bytes: 3 << 30}, Layers: 1, Used: time.Now().Add(-time.Hour)},
	}
	return fake{
		"GET /v1/caches": func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			json.NewEncoder(w).Encode(map[string]any{"caches": slices.DeleteFunc(slices.Clone(all), func(c api.Cache) bool {
				return q.Has("subject") && q.Get("subject") != c.Subject || q.Has("clone") && q.Get("clone") != c.Clone
			})})
		},
		"GET /v1/clones": func(w http.ResponseWriter, r *http.Request) {
			list := []api.Clone{}
			for _, c := range []api.Clone{{Clone: ciClone, Subject: "ci"}, {Clone: evClone, Subject: "ev\x1b[2Jil"}} {
				if subject := r.URL.Query().Get("subject"); subject == "" || subject == c.Subject {
					list = append(list, c)
				}
			}
			json.NewEncoder(w).Encode(map[string]any{"clones": list})
		},
		"GET /v1/clones/" + ciClone:      api.CloneDetail{},
		"GET /v1/clones/" + evClone:      api.CloneDetail{},
		"GET /v1/clones/{subject}/{key}": refuse(404, api.ErrorAnswer{Error: "there is no such clone"}),
		"DELETE /v1/clones/{subject}/{hash}/cache": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("path") == "npm/_cache" {
				refuse(404, api.ErrorAnswer{Error: "nothing is published at npm/_cache"})(w, r)
				return
			}
			*dropped = append(*dropped, strings.TrimPrefix(r.URL.RequestURI(), "/v1/clones/"))
			json.NewEncoder(w).Encode(api.DroppedCache{Freed: api.Size{Bytes: 5 << 20}})
		},
	}
}

func TestCacheLs(t *testing.T) {
	p := caching(nil)
	got := p.run(t, "", "cache", "ls")
	want := `CLONE                 SUBJECT         REPOSITORY                  UID       SIZE      LAYERS    USED                PUBLISHED
ev/fedcba9876543210   ev\u001b[2Jil   https://example.com/x       1000      3GiB      1         About an hour ago   never
ci/0123456789abcdef   ci              https://example.com/small   0         1MiB      2         never               About an hour ago
ci/0123456789abcdef   ci              https://example.com/small   1000      68KiB     0         never               never
`
	if got.failed != nil || got.out != want {
		t.Errorf("got %v and\n%s, want\n%s", got.failed, got.out, want)
	}
	for args, want := range map[string]string{
		"-q":                                    evClone + "\n" + ciClone + "\n", // each once
		"--format {{.UID}}:{{.GID}}:{{.Bytes}}": "1000:0:3221225472\n0:0:1048576\n1000:5:69632\n",
		"--format {{.Clone}} ci":                ciClone + "\n" + ciClone + "\n",
		"--format {{.UID}} ci 0123 " + ciClone:  "0\n1000\n", // once, whatever names them
		"-q ev/":                                evClone + "\n",
	} {
		if got := p.run(t, "", append([]string{"cache", "ls"}, strings.Fields(args)...)...); got.failed != nil || got.out != want {
			t.Errorf("%s: got %v and %q, want %q", args, got.failed, got.out, want)
		}
	}
	for word, want := range map[string]string{
		"xy": `there is no subject with a clone, and no clone, that "xy" names`, "ci/0000000000000000": "there is no such clone", "": "an argument is empty",
	} {
		if got := p.run(t, "", "cache", "ls", word); got.failed == nil || !strings.Contains(got.failed.Error(), want) || got.out != "" {
			t.Errorf("%q: got %q and %v, want %q", word, got.out, got.failed, want)
		}
	}
}

func TestCacheRm(t *testing.T) {
	const sure, kept = "Are you sure you want to continue? [y/N] ", "Containers that run keep what they began with.\n"
	for _, c := range []struct {
		input, args, out, dropped, err string
	}{
		{"", "-f " + ciClone, ciClone + "\nTotal reclaimed space: 5MiB\n", ciClone + "/cache", ""},
		{"", "-f 0123 ev/", ciClone + "\n" + evClone + "\nTotal reclaimed space: 10MiB\n", ciClone + "/cache " + evClone + "/cache", ""},
		{"", "-f --uid 0 --path npm/_cacache/ 0123", ciClone + "\nTotal reclaimed space: 5MiB\n", ciClone + "/cache?path=npm%2F_cacache&uid=0", ""},
		{"y\n", "0123", "WARNING! This will drop what is published in the cache of the clone " + ciClone + ". The next containers download again.\n" +
			kept + sure + ciClone + "\nTotal reclaimed space: 5MiB\n", ciClone + "/cache", ""},
		{"n\n", "--uid 7 --path pip 0123 ev/", "WARNING! This will drop pip in the cache of the uid 7 of 2 clones. The next containers download again.\n" + kept + sure, "", "declined"},
		{"", "-f --path npm/_cache 0123", "Total reclaimed space: 0B\n", "", "nothing is published at npm/_cache"},
		{"", "-f --path= 0123", "", "", "--path is empty"},
		{"", "-f --path / 0123", "", "", "--path is empty"},
		{"", "-f --uid -1 0123", "", "", `invalid argument "-1" for "--uid"`},
		{"", "-f --uid= 0123", "", "", `invalid argument "" for "--uid"`},
		{"", "-f", "", "", "requires at least 1 argument"},
		{"", "-f 0123 xy", "", "", `there is no clone "xy"`},
	} {
		var dropped []string
		got := caching(&dropped).run(t, c.input, append([]string{"cache", "rm"}, strings.Fields(c.args)...)...)
		if got.out != c.out || strings.Join(dropped, " ") != c.dropped {
			t.Errorf("%s: got\n%q, want\n%q; dropped %q", c.args, got.out, c.out, dropped)
		}
		if (got.failed == nil) != (c.err == "") || got.failed != nil && !strings.Contains(got.failed.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.args, got.failed, c.err)
		}
	}
}

func TestCachePublish(t *testing.T) {
	var published []string
	p := looked()
	p["POST /v1/workspaces/{id}/cache"] = func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "c1" {
			refuse(http.StatusConflict, api.ErrorAnswer{Error: "c1 is a checkpoint"})(w, r)
			return
		}
		published = append(published, r.PathValue("id"))
		p := api.PublishedCache{Files: 3, Bytes: 2 << 20}
		if r.PathValue("id") == "b2" {
			p.Left = []string{"tool: nothing of it"}
		}
		json.NewEncoder(w).Encode(p)
	}
	got := p.run(t, "", "cache", "publish", "one", "left", "ns/pod", "two")
	if got.out != "one\nns/pod\nPublished: 6 files, 4MiB\n" || !slices.Equal(published, []string{"a1", "b2"}) {
		t.Errorf("got %q, published %q", got.out, published)
	}
	if !strings.Contains(got.err, "ns/pod: not published: tool: nothing of it\n") || strings.Count(got.err, "not published") != 1 {
		t.Errorf("the command says %q", got.err)
	}
	if got.failed == nil || !strings.HasPrefix(got.failed.Error(), "c1 is a checkpoint\n") || !strings.Contains(got.failed.Error(), "name one of them") {
		t.Errorf("got %v", got.failed)
	}
}

func TestCacheCompletion(t *testing.T) {
	p := caching(nil)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"rm", ""}, ciClone + "\n" + evClone + "\n:4\n"},
		{[]string{"rm", "--uid", ""}, "0\n1000\n:4\n"},
		{[]string{"ls", "c"}, "ci\n" + ciClone + "\n:4\n"},
	} {
		if got := p.run(t, "", append([]string{"__complete", "cache"}, c.args...)...); got.out != c.want {
			t.Errorf("%q: got %q, want %q; %s", c.args, got.out, c.want, got.err)
		}
	}
	for args, want := range map[string]string{"caches": "Did you mean cache?", "cache drop": "Did you mean rm?", "cache rm --paht x y": "Did you mean --path?"} {
		if got := p.run(t, "", strings.Fields(args)...); got.failed == nil || !strings.Contains(got.failed.Error(), want) {
			t.Errorf("%s: got %v", args, got.failed)
		}
	}
}
