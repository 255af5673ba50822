package prebuild

import (
	"os/exec"
	"strings"
	"testing"
)

func TestParseDevcontainer(t *testing.T) {
	for _, c := range []struct{ what, text, image, setup, update, failed string }{
		{
			"comments and a comma too many", `{
				// the image of the team
				"image": "node:22", /* pinned */
				"onCreateCommand": "npm ci", "customizations": {"x": [1]}, "features": {},
			}`, "node:22", "npm ci", "", "",
		},
		{"both", `{"image": "i", "onCreateCommand": "a; b", "updateContentCommand": "c"}`, "i", `sh -c 'a; b' && sh -c c`, "c", ""},
		{"the content alone", `{"image": "i", "updateContentCommand": "c"}`, "i", "c", "c", ""},
		{"words", `{"image": "i", "onCreateCommand": ["npm", "run", "a b", "it's"]}`, "i", `npm run 'a b' 'it'\''s'`, "", ""},
		{"names, in their order", `{"image": "i", "onCreateCommand": {"z": "last", "a": ["x", "y z"], "m": ""}}`, "i", `sh -c 'x '\''y z'\''' && sh -c last`, "", ""},
		{"null", `{"image": "i", "onCreateCommand": null, "updateContentCommand": "c", "build": null}`, "i", "c", "c", ""},
		{"no image", `{"onCreateCommand": "a"}`, "", "", "", "it has no image"},
		{"an image that is no string", `{"image": 1, "onCreateCommand": "a"}`, "", "", "", "image: allowed is a string"},
		{"no command", `{"image": "i", "onCreateCommand": []}`, "", "", "", "it has neither onCreateCommand nor updateContentCommand"},
		{"a build", `{"image": "i", "build": {"dockerfile": "D"}, "onCreateCommand": "a"}`, "", "", "", "it has build, and a prebuild takes an image as it is: it builds an image"},
		{"compose", `{"dockerComposeFile": ["c.yaml"], "service": "s"}`, "", "", "", "it has dockerComposeFile"},
		{"features", `{"image": "i", "features": { "x": {} }, "onCreateCommand": "a"}`, "", "", "", "it has features"},
		{"a variable", `{"image": "i", "onCreateCommand": "cd ${containerWorkspaceFolder}/x"}`, "", "", "", "the variable ${containerWorkspaceFolder}"},
		{"a variable of the shell", `{"image": "i", "onCreateCommand": "cd ${HOME}"}`, "i", "cd ${HOME}", "", ""},
		{"a number", `{"image": "i", "onCreateCommand": 1}`, "", "", "", "onCreateCommand: allowed are a string, a list of strings, and an object of these"},
		{"a list of numbers", `{"image": "i", "updateContentCommand": [1]}`, "", "", "", "updateContentCommand: a list has strings alone"},
		{"an object in an object", `{"image": "i", "onCreateCommand": {"a": {"b": "c"}}}`, "", "", "", `onCreateCommand: "a" is an object in an object`},
		{"not JSON", `{"image": `, "", "", "", "unexpected EOF"},
		{"a list", `[]`, "", "", "", "cannot unmarshal array"},
	} {
		image, setup, update, err := parseDevcontainer([]byte(c.text))
		if image != c.image || setup != c.setup || update != c.update {
			t.Errorf("%s: got %q, %q, %q, want %q, %q, %q", c.what, image, setup, update, c.image, c.setup, c.update)
		}
		if c.failed == "" && err != nil || c.failed != "" && (err == nil || !strings.Contains(err.Error(), c.failed)) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.failed)
		}
	}
}

// TestDepth checks that a file that is too deep is refused, and that strings and comments do not count.
func TestDepth(t *testing.T) {
	deep := strings.Repeat("[", maxDepth)
	whole := deep + strings.Repeat("]", maxDepth)
	for text, ok := range map[string]bool{
		whole:                                        true,
		strings.Repeat("[]", maxDepth+1):             true,
		`["` + deep + `\"` + deep + `"]`:             true,
		"[//" + deep + "\n" + whole[2:]:              true,
		"//" + deep + deep:                           true,
		"[/*" + deep + "*/" + whole[2:]:              true,
		"/*" + deep + deep:                           true,
		deep + "[":                                   false,
		deep + "{":                                   false,
		`"\\"` + deep + "[":                          false,
		"/*" + deep + "*/" + deep + "[":              false,
		"//\n" + deep + "[":                          false,
		strings.Repeat("{", 64<<10):                  false,
		`{"a":` + deep + strings.Repeat(`{"a":`, 10): false,
	} {
		if err := checkDepth([]byte(text)); (err == nil) != ok {
			t.Errorf("%.20q, %d bytes: got %v", text, len(text), err)
		}
	}
	if _, _, _, err := parseDevcontainer([]byte(deep + deep)); err == nil || !strings.Contains(err.Error(), "more than 100 deep") {
		t.Errorf("got %v", err)
	}
}

// TestInTurn runs the commands with a real shell: one that fails is the last.
func TestInTurn(t *testing.T) {
	text := inTurn([]string{"cd /; echo one; # a comment", "pwd | grep -qx / || echo two", "exit 3", "echo three"})
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if ended, ok := err.(*exec.ExitError); !ok || ended.ExitCode() != 3 || string(out) != "one\ntwo\n" {
		t.Errorf("got %q and %v", out, err)
	}
}
