package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Progress is one JSON line of a long operation.
type Progress struct {
	Status string `json:"status"` // what is being done, for people
	// Current and Total count what Unit names; Total is 0 if it is unknown.
	Current int64  `json:"current,omitempty"`
	Total   int64  `json:"total,omitempty"`
	Unit    string `json:"unit,omitempty"` // bytes, objects or files
}

// records calls f with each line of an answer as a record.
func records[T any](ctx context.Context, c *Client, path string, f func(T) error) error {
	return c.lines(ctx, http.MethodGet, path, nil, func(line []byte) error {
		var r T
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("GET %s: malformed line: %w", path, err)
		}
		return f(r)
	})
}

// lines calls f with each JSON line of the answer, in order, until f fails or the answer
// ends.
func (c *Client) lines(ctx context.Context, method, path string, body any, f func(line []byte) error) error {
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	s := bufio.NewScanner(res.Body)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		if len(s.Bytes()) == 0 {
			continue // keeps the connection alive
		}
		if err := f(s.Bytes()); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// operate makes a request whose answer is the JSON lines of a long operation. It calls
// progress, which may be nil, for each, and decodes the result.
func operate[T any](ctx context.Context, c *Client, path string, body any, progress func(Progress)) (result T, err error) {
	done := errors.New("done")
	err = c.lines(ctx, http.MethodPost, path, body, func(line []byte) error {
		var l struct {
			Progress
			ErrorAnswer
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("POST %s: malformed line: %w", path, err)
		}
		switch {
		case l.Error != "":
			return &Error{http.StatusOK, l.Error, l.Obstacles}
		case l.Result != nil:
			if err := json.Unmarshal(l.Result, &result); err != nil {
				return fmt.Errorf("POST %s: malformed result: %w", path, err)
			}
			return done
		case progress != nil:
			progress(l.Progress)
		}
		return nil
	})
	switch {
	case err == done:
		return result, nil
	case err == nil: // the plugin ended
		err = fmt.Errorf("POST %s: the answer has no result: %w", path, io.ErrUnexpectedEOF)
	}
	return result, err
}
