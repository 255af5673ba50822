package testgit

import (
	"net/http"
	"net/http/httptest"
)

// Held is a fault that sends to Answered when the server has answered a request, and then keeps
// the answer until Open is closed: it is older than everything that happens meanwhile.
type Held struct{ Answered, Open chan struct{} }

// Hold returns a Held.
func Hold() Held { return Held{make(chan struct{}), make(chan struct{})} }

// Fault keeps the answers of next.
func (h Held) Fault(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		h.Answered <- struct{}{}
		<-h.Open
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}
