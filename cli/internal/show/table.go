package show

import (
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/docker/cli/cli/command/formatter"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/pflag"
)

// Row is embedded in the type of a table's rows. Exported fields with a tag like header:"SIZE" are
// the columns; templates and JSON can have the others too.
type Row struct{}

// FullHeader makes a row usable for package formatter, which takes the header from elsewhere.
func (Row) FullHeader() any { return nil }

// header is the header of a table, by the names of the fields.
type header struct{ formatter.SubHeaderContext }

func (h header) FullHeader() any { return h.SubHeaderContext }

// Format has the flags of a list.
type Format struct {
	Template string // of --format
	Quiet    bool
	NoTrunc  bool
}

// AddTo adds the flags to a list's command. If id is empty, it has no -q: id says what that prints.
func (f *Format) AddTo(set *pflag.FlagSet, id string) {
	set.StringVar(&f.Template, "format", "", flags.FormatHelp)
	set.BoolVar(&f.NoTrunc, "no-trunc", false, "Don't truncate output")
	if id != "" {
		set.BoolVarP(&f.Quiet, "quiet", "q", false, "Only display "+id)
	}
}

// Table reports whether the output is a table.
func (f Format) Table() bool {
	return !f.Quiet && f.Template == "" || strings.HasPrefix(f.Template, formatter.TableFormatKey)
}

// List writes rows, as docker's lists do. By default this is a table with the named columns; with
// Quiet it is the first of them.
func List[R formatter.SubContext](w io.Writer, f Format, columns []string, rows []R) error {
	format := formatter.Format(f.Template)
	switch f.Template {
	case "", formatter.TableFormatKey:
		if format = formatter.Format("table {{." + strings.Join(columns, "}}\t{{.") + "}}"); f.Quiet {
			format = formatter.Format("{{." + columns[0] + "}}")
		}
	}
	if format.IsTable() {
		rows = slices.Clone(rows)
		for i := range rows {
			clean(reflect.ValueOf(&rows[i]).Elem())
		}
	}
	c := formatter.Context{Output: w, Format: format}
	return c.Write(headerOf(reflect.TypeFor[R]()), func(format func(formatter.SubContext) error) error {
		for _, r := range rows {
			if err := format(r); err != nil {
				return err
			}
		}
		return nil
	})
}

func headerOf(row reflect.Type) header {
	h := header{formatter.SubHeaderContext{}}
	for field := range row.Fields() {
		if field.IsExported() && !field.Anonymous {
			h.SubHeaderContext[field.Name] = field.Tag.Get("header")
		}
	}
	return h
}

// clean replaces the strings of a row by their Text.
func clean(row reflect.Value) {
	for _, field := range row.Fields() {
		if field.Kind() == reflect.String && field.CanSet() {
			field.SetString(Text(field.String()))
		}
	}
}
