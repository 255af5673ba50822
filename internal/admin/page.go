package admin

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/volume"
)

// list is a response with one list, by its name, and the key of the next page.
type list map[string]any

// columns are the values of a record by which a list can be filtered.
type columns[T any] map[string]func(T) string

// extent says which records a page has.
type extent struct {
	limit int
	after string
	later bool              // only records after the key after
	want  map[string]string // the values of columns
}

// extentOf returns the extent that a request asks for. Its query may have the values of columns.
func extentOf(r *http.Request, columns ...string) (e extent, err error) {
	if e.want, err = queryOf(r, append([]string{"limit", "after"}, columns...)); err != nil {
		return e, err
	}
	if e.limit, err = limitOf(e.want["limit"]); err != nil {
		return e, err
	}
	e.after, e.later = e.want["after"]
	if hash, err := repoHash(e.want["repo"]); err != nil {
		return e, err
	} else if hash != "" {
		e.want["repo"] = hash
	}
	return e, nil
}

// covers reports whether the page may have a record with a key.
func (e extent) covers(key string) bool { return !e.later || key > e.after }

// page returns the page of a list that a request asks for. name is that of the list, and key
// is unique among the records.
func page[T any](r *http.Request, name string, records []T, key func(T) string, by columns[T]) (any, error) {
	e, err := extentOf(r, slices.Collect(maps.Keys(by))...)
	if err != nil {
		return nil, err
	}
	rows := make([]row[T], 0, len(records))
	for _, record := range records {
		if k := key(record); e.covers(k) && selected(record, e.want, by) {
			rows = append(rows, row[T]{k, record})
		}
	}
	slices.SortFunc(rows, func(a, b row[T]) int { return strings.Compare(a.key, b.key) })
	answer := list{}
	if len(rows) > e.limit {
		rows = rows[:e.limit]
		answer["next"] = rows[e.limit-1].key
	}
	shown := make([]T, len(rows))
	for i, row := range rows {
		shown[i] = row.record
	}
	answer[name] = shown
	return answer, nil
}

// limitOf reads the largest number of records on a page.
func limitOf(text string) (int, error) {
	if text == "" {
		return api.DefaultLimit, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > api.MaxLimit {
		return 0, badRequest(fmt.Errorf("limit is %.40q: allowed is a number from 1 to %d", text, api.MaxLimit))
	}
	return limit, nil
}

// row is a record with its key.
type row[T any] struct {
	key    string
	record T
}

// selected reports whether a record has the values that the query asks for. A parameter
// without a value selects all.
func selected[T any](record T, query map[string]string, by columns[T]) bool {
	for column, value := range by {
		if want := query[column]; want != "" && value(record) != want {
			return false
		}
	}
	return true
}

// queryOf returns the parameters of a request's query, which must be among the allowed ones.
func queryOf(r *http.Request, allowed []string) (map[string]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest(fmt.Errorf("the query is malformed: %w", err))
	}
	query := make(map[string]string, len(values))
	for name, value := range values {
		switch {
		case !slices.Contains(allowed, name):
			slices.Sort(allowed)
			return nil, badRequest(fmt.Errorf("the query has %.40q: allowed are %s", name, strings.Join(allowed, ", ")))
		case len(value) > 1:
			return nil, badRequest(fmt.Errorf("the query has %s more than once", name))
		}
		query[name] = value[0]
	}
	return query, nil
}

// parseFlag reads the value of a query that is true or false.
func parseFlag(name, text string) (bool, error) {
	set, err := strconv.ParseBool(text)
	if err != nil {
		err = badRequest(fmt.Errorf("%s is %.40q: allowed are true and false", name, text))
	}
	return set, err
}

// repoHash returns the hash of a repository's URL, by which records are selected because
// they may spell it differently. That of "" is "".
func repoHash(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := volume.ParseURL(text, volume.AllSchemes())
	if err != nil {
		return "", err
	}
	return u.Hash(), nil
}

// hashOf returns the hash of the repository from the key of a clone, and subjectOf the
// directory of its subject.
func hashOf(clone string) string {
	_, hash, _ := strings.Cut(clone, "/")
	return hash
}

func subjectOf(clone string) string {
	dir, _, _ := strings.Cut(clone, "/")
	return dir
}
