package api_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/testpage"
)

const referencePage = "../docs/reference/api.md"

// TestDocs checks that docs/reference/api.md has what the document has.
func TestDocs(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(api.Document)
	if err != nil {
		t.Fatal(err)
	}
	var routes, schemas strings.Builder
	var rows [][]string
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		operations := doc.Paths.Find(path).Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			rows = append(rows, []string{testpage.Code(method + " " + path), operations[method].Summary})
			describeRoute(&routes, method, path, operations[method])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		describeObject(&schemas, name, doc.Components.Schemas[name].Value)
	}
	testpage.Check(t, referencePage, "contents", testpage.Table([]string{"route", "does"}, rows))
	testpage.Check(t, referencePage, "routes", strings.TrimLeft(routes.String(), "\n"))
	testpage.Check(t, referencePage, "objects", strings.TrimLeft(schemas.String(), "\n"))
}

// describeRoute writes the section of a route.
func describeRoute(b *strings.Builder, method, path string, o *openapi3.Operation) {
	fmt.Fprintf(b, "\n### %s %s\n\n%s.\n", method, path, strings.TrimSuffix(o.Summary, "."))
	if o.Description != "" {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(o.Description))
	}
	var rows [][]string
	for _, p := range o.Parameters {
		kind := p.Value.In
		if p.Value.Required {
			kind += ", required"
		}
		rows = append(rows, []string{testpage.Code(p.Value.Name), kind, typeOf(p.Value.Schema), oneLine(p.Value.Description)})
	}
	if o.RequestBody != nil {
		for _, kind := range slices.Sorted(maps.Keys(o.RequestBody.Value.Content)) {
			rows = append(rows, []string{"body", kind, typeOf(o.RequestBody.Value.Content[kind].Schema), oneLine(o.RequestBody.Value.Description)})
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n" + testpage.Table([]string{"input", "where", "type", "meaning"}, rows))
	}
	rows = nil
	for _, status := range slices.Sorted(maps.Keys(o.Responses.Map())) {
		answer := o.Responses.Value(status).Value
		kinds := slices.Sorted(maps.Keys(answer.Content))
		if len(kinds) == 0 {
			rows = append(rows, []string{status, "none", "", oneLine(*answer.Description)})
		}
		for _, kind := range kinds {
			rows = append(rows, []string{status, kind, typeOf(answer.Content[kind].Schema), oneLine(*answer.Description)})
		}
	}
	b.WriteString("\n" + testpage.Table([]string{"status", "answer", "type", "meaning"}, rows))
}

// describeObject writes the section of an object.
func describeObject(b *strings.Builder, name string, s *openapi3.Schema) {
	fmt.Fprintf(b, "\n### %s\n", name)
	if s.Description != "" {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(s.Description))
	}
	var rows [][]string
	for _, part := range append(openapi3.SchemaRefs{{Value: s}}, s.AllOf...) {
		for _, field := range slices.Sorted(maps.Keys(part.Value.Properties)) {
			ref := part.Value.Properties[field]
			kind := typeOf(ref)
			if !slices.Contains(part.Value.Required, field) {
				kind += ", optional"
			}
			rows = append(rows, []string{testpage.Code(field), kind, oneLine(ref.Value.Description)})
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n" + testpage.Table([]string{"name", "type", "meaning"}, rows))
	}
}

// typeOf names a schema's type, with a link if it is an object of the document.
func typeOf(ref *openapi3.SchemaRef) string {
	if ref == nil {
		return ""
	}
	if name, ok := strings.CutPrefix(ref.Ref, "#/components/schemas/"); ok {
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	s := ref.Value
	text := strings.Join(s.Type.Slice(), " or ")
	switch {
	case len(s.AllOf) == 1:
		text = typeOf(s.AllOf[0])
	case s.Type.Is("array"):
		text = "list of " + typeOf(s.Items)
	case s.Type.Is("object") && len(s.Properties) > 0:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			fields = append(fields, "`"+name+"`: "+typeOf(s.Properties[name]))
		}
		text = "object with " + strings.Join(fields, ", ")
	case s.Type.Is("object") && s.AdditionalProperties.Schema != nil:
		text = "object of " + typeOf(s.AdditionalProperties.Schema) + " by name"
	case s.Format != "":
		text += " (" + s.Format + ")"
	}
	if len(s.Enum) > 0 {
		text += ": " + strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", s.Enum), "[]"), `"`, "`")
	}
	if s.Nullable {
		text += " or null"
	}
	return text
}

// oneLine joins the lines of a description.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
