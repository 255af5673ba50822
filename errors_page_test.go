package repos_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const errorsPage = "docs/operations/errors.md"

// answering are the packages of the plugin whose errors are part of answers to users and operators. Those of the others say
// which call to the kernel, or which file, has failed, and count if they have advice. All of the command's errors count.
var answering = []string{
	"csi", "driver", "janitor", "plugin",
	"internal/admin", "internal/admin/audit", "internal/repo/checkout", "internal/clone", "internal/credential", "internal/git", "internal/git/gitref", "internal/git/githelper", "internal/git/githttp", "internal/git/gitssh", "internal/git/guard",
	"internal/outbound/changes", "internal/intake", "internal/repo/lfs", "internal/repo/lfs/download", "internal/outbound/look", "internal/credential/mint", "internal/workspace/mounter", "internal/outbound", "internal/outbound/quarantine", "internal/admin/quota", "internal/repo/ready", "internal/repo/remote", "internal/verbs/removal", "internal/repo/tree",
	"internal/disk/upfile", "internal/verbs", "internal/volume", "internal/workspace/warm", "internal/work", "internal/workspace", "internal/workspace/admission",
	"internal/git/giterror",
}

// advice matches a message that says what to do.
var advice = regexp.MustCompile(`[:;,] (it )?(choose|correct|enable|end|free|give|install|leave|look|make|mount|must be|name|put|raise|remove|run|set|start|store|` +
	`switch|try|unmount|upgrade|use)\b`)

// pageMessages returns those messages of a file that belong on the page.
func (s source) pageMessages() []string {
	list := s.messages()
	switch {
	case slices.Contains(answering, s.dir), strings.HasPrefix(s.dir, "cli/"):
		return list
	case outside(s.dir):
		return nil
	}
	return slices.DeleteFunc(list, func(m string) bool { return !advice.MatchString(m) })
}

var (
	verb    = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	trailer = regexp.MustCompile(`([:;,]? *…)+[:;,]?$`)
	letters = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)
)

// message returns a format as the page has it: with … for all that is put into it, but for what follows. It returns
// "" if the format is not a message: if it only names what another error is about, as "clone %s: %w" does.
func message(format string) string {
	text := verb.ReplaceAllString(strings.ReplaceAll(format, "%%", "%"), "…")
	text = strings.TrimSpace(trailer.ReplaceAllString(strings.ReplaceAll(text, "\n", " "), ""))
	least := 2
	if strings.HasSuffix(format, "%w") || strings.HasSuffix(format, "%v") || strings.Contains(format, "%w: %s") {
		least = 4
	}
	if len(letters.FindAllString(text, -1)) < least {
		return ""
	}
	return text
}

// messages returns the messages of a file.
func (s source) messages() (list []string) {
	ast.Inspect(s.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if slices.Contains([]string{"errors.New", "fmt.Errorf", "notFound", "wrong", "wrongAnswer"}, types.ExprString(n.Fun)) {
				list = append(list, message(text(n.Args[0])))
			}
			// These have the kind of error before the text.
			if of := types.ExprString(n.Fun); s.dir == "internal/outbound/quarantine" && of == "refuse" || s.dir == "csi" && of == "failf" {
				list = append(list, message(text(n.Args[1])))
			}
		case *ast.CompositeLit: // the command's errors with an exit code
			for _, e := range n.Elts {
				if field, ok := e.(*ast.KeyValueExpr); ok && n.Type != nil && types.ExprString(n.Type) == "cli.StatusError" && types.ExprString(field.Key) == "Status" {
					list = append(list, message(formatted(field.Value)))
				}
			}
		case *ast.FuncDecl: // the message of a type of errors
			if n.Name.Name == "Error" && n.Recv != nil && len(n.Body.List) == 1 {
				list = append(list, message(returned(n.Body.List[0])))
			}
		case *ast.ValueSpec: // the kinds of git's errors
			if n.Type != nil && s.dir == "internal/git/giterror" && n.Names[0].Name != "KindOK" && n.Names[0].Name != "KindFallback" && types.ExprString(n.Type) == "Kind" {
				list = append(list, text(n.Values[0]))
			}
		}
		return true
	})
	return slices.DeleteFunc(list, func(m string) bool { return m == "" })
}

// returned returns the format or the text that a statement returns.
func returned(s ast.Stmt) string {
	ret, ok := s.(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return ""
	}
	return formatted(ret.Results[0])
}

// formatted returns the text of an expression, or the format of a call of fmt.Sprintf.
func formatted(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok && types.ExprString(call.Fun) == "fmt.Sprintf" {
		return text(call.Args[0])
	}
	return text(e)
}

// text returns the text of an expression, with a verb for each part that is not constant.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	}
	return "%v"
}

// described returns the messages that the page has, in the first column of its tables.
func described(p page) (list []string) {
	for line := range strings.Lines(p.prose) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, m := range span.FindAllStringSubmatch(first, -1) {
				list = append(list, strings.ReplaceAll(m[1], `\|`, "|"))
			}
		}
	}
	return list
}

// TestErrorsAreDescribed checks that the page has the messages of the code, and no others.
func TestErrorsAreDescribed(t *testing.T) {
	var made []string
	for _, s := range sources(t) {
		made = append(made, s.pageMessages()...)
	}
	data, err := os.ReadFile(errorsPage)
	if err != nil {
		t.Fatal(err)
	}
	page := described(parsePage(errorsPage, string(data)))
	if len(made) < 100 || len(page) < 100 {
		t.Fatalf("the code has %d messages, the page %d", len(made), len(page))
	}
	for _, m := range missing(slices.Values(made), page) {
		t.Errorf("%s does not say what to do about: %s", errorsPage, m)
	}
	for _, m := range missing(slices.Values(page), made) {
		t.Errorf("%s has a message that nothing says: %s", errorsPage, m)
	}
}

// TestMessages checks what counts as a message.
func TestMessages(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
		var (
			a = errors.New("the disk is full")
			b = fmt.Errorf("clone %s: %w", key, err)
			c = fmt.Errorf("no volume %q", name)
			d = fmt.Errorf("volume %q: %w: end "+"its containers", name, err)
			e = fmt.Errorf("write the answer of %s: %w", name, err)
			f = fmt.Sprintf("not an error")
			g = cli.StatusError{StatusCode: 125, Status: "--branch is for --bundle"}
			h = cli.StatusError{StatusCode: 125, Status: fmt.Sprintf("%s has no branch: name one", id)}
			i = row{Status: "not an error"}
		)`, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := source{dir: "x", File: f}.messages()
	want := []string{"the disk is full", "no volume", "volume …: …: end its containers", "write the answer of", "--branch is for --bundle", "… has no branch: name one"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for dir, want := range map[string][]string{
		"internal/verbs": want, "cli/internal/new": want, "cmd/bench": nil, "internal/disk": {"volume …: …: end its containers", "… has no branch: name one"},
	} {
		if got := (source{dir: dir, File: f}).pageMessages(); !slices.Equal(got, want) {
			t.Errorf("of %s the page has %q, want %q", dir, got, want)
		}
	}
	page := described(parsePage("x.md", "| message | x |\n| --- | --- |\n| `no volume` · `the disk is full` | x `y` |\n"))
	if want := []string{"no volume", "the disk is full"}; !slices.Equal(page, want) {
		t.Errorf("the page has %q, want %q", page, want)
	}
}
