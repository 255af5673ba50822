package repos_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// page is a Markdown file of the project.
type page struct {
	name   string // slash-separated path
	prose  string // without fenced blocks
	blocks []block
	// anchors are those that a reader's browser knows, as GitHub and GitLab make them.
	anchors map[string]bool
}

// block is a fenced block.
type block struct {
	lang string
	line int // of the first line in the file, from 1
	text string
}

// pages reads all Markdown files.
func pages(t *testing.T) []page {
	t.Helper()
	var list []page
	for _, name := range files(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, parsePage(name, string(data)))
	}
	if len(list) < 10 {
		t.Fatalf("%d pages", len(list))
	}
	return list
}

func parsePage(name, text string) page {
	p := page{name: name, anchors: make(map[string]bool)}
	var prose strings.Builder
	var open *block
	for i, line := range strings.Split(text, "\n") {
		lang, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case open != nil && fence:
			p.blocks, open = append(p.blocks, *open), nil
		case open != nil:
			open.text += line + "\n"
		case fence:
			open = &block{lang: lang, line: i + 2}
		default:
			prose.WriteString(line + "\n")
			if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
				p.anchors[anchor(title)] = true
			}
		}
	}
	p.prose = prose.String()
	return p
}

// anchor returns the anchor of a heading.
func anchor(title string) string {
	title = linkText.ReplaceAllString(title, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

var (
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	word     = regexp.MustCompile(`^\w+$`)
	span     = regexp.MustCompile("`([^`]+)`")
)

// links returns the targets of the links and pictures.
func (p page) links() (targets []string) {
	prose := span.ReplaceAllString(p.prose, "x")
	for _, m := range regexp.MustCompile(`\]\(([^()\s]+)\)`).FindAllStringSubmatch(prose, -1) {
		targets = append(targets, m[1])
	}
	return targets
}

// spans returns the pieces of code in the prose.
func (p page) spans() (list []string) {
	for _, m := range span.FindAllStringSubmatch(p.prose, -1) {
		list = append(list, strings.Join(strings.Fields(m[1]), " "))
	}
	return list
}

// cells returns the words of code in the first column of the tables whose first column has a title.
func (p page) cells(title string) (list []string) {
	inside := false
	for line := range strings.Lines(p.prose) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !strings.HasPrefix(line, "| ") {
			inside = false
		} else if first == title {
			inside = true
		} else if inside {
			for _, m := range span.FindAllStringSubmatch(first, -1) {
				if word.MatchString(m[1]) {
					list = append(list, m[1])
				}
			}
		}
	}
	return list
}

// commands returns the command lines: those of console and sh blocks, with the lines that continue them, and the code
// in the prose.
func (p page) commands() (list []string) {
	for _, b := range p.blocks {
		list = append(list, b.commands()...)
	}
	return append(list, p.spans()...)
}

// commands returns the commands of a console or sh block.
func (b block) commands() (list []string) {
	if b.lang != "console" && b.lang != "sh" {
		return nil
	}
	more := false
	for line := range strings.Lines(b.text) {
		line = strings.TrimSuffix(line, "\n")
		command, ok := strings.CutPrefix(line, "$ ")
		switch {
		case more:
			list[len(list)-1] += "\n" + line
		case ok || b.lang == "sh":
			list = append(list, command)
		default: // output
			continue
		}
		more = strings.HasSuffix(line, `\`)
	}
	return list
}
