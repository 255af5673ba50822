package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/templates"
)

// Printer returns a function that writes a record as a line: as text, as JSON, or with a template.
func Printer[T any](w io.Writer, format string, text func(T) string) (func(T) error, error) {
	switch format {
	case "":
		return func(record T) error {
			_, err := fmt.Fprintln(w, Text(text(record)))
			return err
		}, nil
	case "json":
		return func(record T) error {
			line, err := json.Marshal(record)
			if err == nil {
				_, err = fmt.Fprintln(w, string(line))
			}
			return err
		}, nil
	}
	t, err := templates.Parse(format)
	if err != nil {
		return nil, cli.StatusError{StatusCode: 64, Status: "template parsing error: " + err.Error()}
	}
	return func(record T) error {
		var line bytes.Buffer
		if err := t.Execute(&line, record); err != nil {
			return fmt.Errorf("template parsing error: %w", err)
		}
		line.WriteByte('\n')
		_, err := line.WriteTo(w)
		return err
	}, nil
}

// Object writes one record as JSON or with a template.
func Object[T any](w io.Writer, format string, record T) error {
	print, err := Printer[T](w, format, nil)
	if err != nil {
		return err
	}
	return print(record)
}
