package api_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/helmdeck/repos/api"
)

// types has the Go type of each schema.
var types = map[string]any{
	"ErrorAnswer": api.ErrorAnswer{}, "Obstacle": api.Obstacle{}, "Size": api.Size{}, "Space": api.Space{}, "Classes": api.Classes{},
	"Version": api.Version{}, "Setting": api.Setting{}, "Health": api.Health{}, "Check": api.Check{}, "Limits": api.Limits{}, "OwnLimits": api.OwnLimits{},
	"Fresh": api.Fresh{}, "Freed": api.Freed{}, "Subject": api.Subject{},
	"Clone": api.Clone{}, "CloneDetail": api.CloneDetail{}, "Store": api.Store{}, "Ref": api.Ref{}, "Layer": api.Layer{}, "Cache": api.Cache{}, "DroppedCache": api.DroppedCache{}, "PublishedCache": api.PublishedCache{},
	"Volume": api.Volume{}, "VolumeDetail": api.VolumeDetail{}, "Lease": api.Lease{}, "Work": api.Work{}, "Workspace": api.Workspace{},
	"WorkspaceDetail": api.WorkspaceDetail{}, "WorkspaceStatus": api.WorkspaceStatus{}, "WorkspaceChange": api.WorkspaceChange{}, "Worktree": api.Worktree{}, "Conflicts": api.Conflicts{}, "ConflictPath": api.ConflictPath{}, "Merged": api.Merged{}, "LeftOut": api.LeftOut{}, "Warmed": api.Warmed{}, "Checkpoint": api.Checkpoint{}, "Draft": api.Draft{}, "Note": api.Note{}, "Rewind": api.Rewind{},
	"PutCredential": api.PutCredential{}, "Credential": api.Credential{}, "Plan": api.Plan{}, "Eviction": api.Eviction{},
	"Missing": api.Missing{}, "Holder": api.Holder{}, "TooLarge": api.TooLarge{}, "Report": api.Report{}, "Prune": api.Prune{}, "Pruned": api.Pruned{}, "Stats": api.Stats{},
	"LogLine": api.LogLine{}, "AuditRecord": api.AuditRecord{}, "Actor": api.Actor{}, "Change": api.Change{}, "Count": api.Count{}, "Finding": api.Finding{}, "Event": api.Event{}, "Warm": api.Warm{}, "WarmResult": api.WarmResult{}, "WarmState": api.WarmState{}, "Progress": api.Progress{}, "Push": api.Push{}, "PushResult": api.PushResult{}, "Refresh": api.Refresh{}, "RefreshResult": api.RefreshResult{},
}

// TestSchemasAreTheTypes checks that each schema has the fields of its Go type: their names,
// types, and which of them may be missing or null.
func TestSchemasAreTheTypes(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(api.Document)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(doc.Components.Schemas))
	if typed := slices.Sorted(maps.Keys(types)); !slices.Equal(names, typed) {
		t.Errorf("the document has the schemas\n%q, this test has the types\n%q", names, typed)
	}
	for name, value := range types {
		schema := doc.Components.Schemas[name]
		if schema == nil {
			continue
		}
		got, want := make(map[string]string), make(map[string]string)
		describeSchema(schema.Value, got)
		describeType(reflect.TypeOf(value), want)
		if !maps.Equal(got, want) {
			for _, field := range slices.Sorted(maps.Keys(want)) {
				if got[field] != want[field] {
					t.Errorf("%s.%s is %q in the document and %q in Go", name, field, got[field], want[field])
				}
				delete(got, field)
			}
			for field := range got {
				t.Errorf("%s.%s is only in the document", name, field)
			}
		}
	}
}

// describeSchema adds the fields of a schema, and of those that it extends.
func describeSchema(s *openapi3.Schema, fields map[string]string) {
	for _, part := range s.AllOf {
		describeSchema(part.Value, fields)
	}
	for name, p := range s.Properties {
		text := schemaText(p)
		if !slices.Contains(s.Required, name) {
			text += "?"
		}
		fields[name] = text
	}
}

func schemaText(p *openapi3.SchemaRef) string {
	s, text := p.Value, ""
	switch {
	case p.Ref != "":
		return p.Ref[strings.LastIndex(p.Ref, "/")+1:]
	case s.Type.Is("array"):
		return "[]" + schemaText(s.Items)
	case s.Type.Is("object"):
		return "map"
	case s.Format == "date-time":
		text = "time"
	default:
		text = s.Type.Slice()[0]
	}
	if s.Nullable {
		text += " or null"
	}
	return text
}

// describeType adds the fields of a struct as JSON has them.
func describeType(typ reflect.Type, fields map[string]string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous {
			describeType(f.Type, fields)
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		text := typeText(f.Type)
		if option != "" {
			text = strings.TrimSuffix(text, " or null") + "?"
		}
		fields[name] = text
	}
}

func typeText(typ reflect.Type) string {
	if typ == reflect.TypeFor[time.Time]() {
		return "time"
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return typeText(typ.Elem()) + " or null"
	case reflect.Slice:
		return "[]" + typeText(typ.Elem())
	case reflect.Map:
		return "map"
	case reflect.Struct:
		return typ.Name()
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	}
	return fmt.Sprint("an unknown kind: ", typ)
}
