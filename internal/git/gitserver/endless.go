package gitserver

import (
	"fmt"
	"net/http"
	"time"
)

// Counting answers every fetch of protocol 2 with endless progress: a line at every interval, and
// never a pack.
func Counting(every time.Duration) Fault {
	return endless(every, func(n int) []byte {
		return pkt(fmt.Appendf(nil, "\x02Counting objects: %d\r", n))
	})
}

// KeepAlive answers every fetch of protocol 2 with an endless series of empty packets, one at every
// interval, and never a pack.
func KeepAlive(every time.Duration) Fault {
	return endless(every, func(int) []byte { return []byte("0005\x01") })
}

// endless sends packets instead of a pack, until the client hangs up.
func endless(every time.Duration, packet func(n int) []byte) Fault {
	return On(Fetch, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, done, err := parseWants(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			beginPack(w, done)
			Trickle(w, r, every, packet)
		})
	})
}

// Trickle writes the results of part for 0, 1, 2 and so on, one at every interval, until the client
// hangs up.
func Trickle(w http.ResponseWriter, r *http.Request, every time.Duration, part func(n int) []byte) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		if _, err := w.Write(part(n)); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
