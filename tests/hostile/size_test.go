package hostile

import (
	"compress/gzip"
	"net/http"
	"strings"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/gitserver/hostile"
)

func init() { groups = append(groups, sizeAttacks) }

// sizeAttacks are small downloads that become more than the machine has: of memory, or of the narrow plugin's disk.
func sizeAttacks() []attack {
	scripts := map[string]string{
		"tree-bomb": limited + `git clone -q "$REPO" w`,
		// A small disk of its own, for it takes any.
		"blob-bombs": `mkdir m && mount -t tmpfs -o size=64m small m
			timeout 15 git clone -q "$REPO" m/w; code=$?; umount --lazy m; exit $code`,
	}
	var all []attack
	for _, c := range hostile.Cases() {
		if bombs[c.Name] {
			all = append(all, attack{
				group: "size", name: c.Name, abuses: c.Abuses, on: func() *plugin { return narrow },
				control: control{script: scripts[c.Name], effect: hostile.Fails, repo: serve(c)},
				run:     mountAll(c, nil),
			})
		}
	}
	return all
}

// zipBomb answers ls-refs with so many bytes of refs, compressed.
func zipBomb(size int64) gitserver.Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			w.Header().Set("Content-Encoding", "gzip")
			zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
			ref := []byte(strings.Repeat(packet(strings.Repeat("ab", 20)+" refs/heads/"+strings.Repeat("a", 200)+"\n"), 1000))
			for sent := int64(0); sent < size; sent += int64(len(ref)) {
				if _, err := zip.Write(ref); err != nil {
					return
				}
			}
			zip.Close()
		})
	}
}
