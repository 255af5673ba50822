// Package testapi compares requests and answers of the admin API with its description.
package testapi

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/helmdeck/repos/api"
)

// Document returns the OpenAPI document.
func Document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.Document)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// Documented checks that all answers of a handler of the API are as the document has them,
// and all requests that were not refused.
func Documented(t *testing.T, h http.Handler) http.Handler {
	doc, mux := Document(t), http.NewServeMux()
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			mux.Handle(method+" "+path, http.NotFoundHandler())
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked bytes.Buffer
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &asked), r.Body}
		seen := &tee{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(seen, r)
		_, pattern := mux.Handler(r)
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			return // no route
		}
		op := doc.Paths.Value(path).GetOperation(method)
		what := r.Method + " " + r.URL.RequestURI()
		if seen.status < 300 {
			for name := range r.URL.Query() {
				if op.Parameters.GetByInAndName("query", name) == nil {
					t.Errorf("%s: the parameter %q is not in the document", what, name)
				}
			}
			if op.RequestBody != nil {
				check(t, what+": the request", op.RequestBody.Value.Content["application/json"].Schema, asked.Bytes())
			} else if asked.Len() > 0 {
				t.Errorf("%s: the request has a body", what)
			}
		}
		answer := op.Responses.Status(seen.status)
		if answer == nil && seen.status >= 400 {
			answer = op.Responses.Default()
		}
		if answer == nil {
			t.Errorf("%s: the status %d is not in the document", what, seen.status)
			return
		}
		if len(answer.Value.Content) == 0 {
			if seen.body.Len() > 0 {
				t.Errorf("%s: answered %d with %s", what, seen.status, &seen.body)
			}
			return
		}
		kind, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type")) // empty if it is malformed
		media := answer.Value.Content[kind]
		switch {
		case media == nil:
			t.Errorf("%s: the content type %q is not in the document", what, kind)
		case kind == "application/json":
			check(t, what, media.Schema, seen.body.Bytes())
		case kind == "application/jsonl":
			for line := range bytes.Lines(seen.body.Bytes()) {
				check(t, what, media.Schema, line)
			}
		}
	})
}

// check checks a JSON value.
func check(t *testing.T, what string, schema *openapi3.SchemaRef, data []byte) {
	t.Helper()
	var value any
	err := json.Unmarshal(data, &value)
	if err == nil {
		err = schema.Value.VisitJSON(value, openapi3.EnableFormatValidation(), openapi3.MultiErrors())
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", what, err, data)
	}
}

// tee is a ResponseWriter that keeps what is written.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *tee) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *tee) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *tee) Write(p []byte) (int, error) {
	w.body.Write(p)
	return w.ResponseWriter.Write(p)
}
