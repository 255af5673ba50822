package prebuild

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	got, err := Parse("p.yaml", []byte(`
repositories:
  - repo: https://h/app
    image: node
    setup: |
      npm ci
      npm run build
    update: npm i
    options: {warm: node_modules, uid: 1000, warm_exact: true}
    env: [TOKEN, "A=b"]
    network: host
    target: /src
    timeout: 30m
  - repo: https://h/app
    devcontainer: true
    options: {warm: node_modules, ref: dev}
`))
	want := []Job{
		{
			Repo: "https://h/app", Image: "node", Setup: "npm ci\nnpm run build\n", Update: "npm i",
			Options: map[string]string{"warm": "node_modules", "uid": "1000", "warm_exact": "true"}, Env: []string{"TOKEN", "A=b"},
			Network: "host", Target: "/src", Timeout: 30 * time.Minute,
		},
		{Repo: "https://h/app", Devcontainer: true, Options: map[string]string{"warm": "node_modules", "ref": "dev"}, Target: "/w", Timeout: time.Hour},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
}

func TestParseRefuses(t *testing.T) {
	const whole = "{repo: https://h, image: i, setup: s, options: {warm: w}}"
	for text, want := range map[string]string{
		"":                  "p.yaml: it has no repositories",
		"repositories: []":  "p.yaml: it has no repositories",
		"repos: []":         `p.yaml: line 1: unknown key "repos": allowed are repositories`,
		"- a":               "p.yaml: line 1: allowed is a mapping",
		"repositories: [a]": "p.yaml: line 1: allowed is a mapping",
		"\nrepositories:\n- {repo: r,\n   imagee: i}":                                                `p.yaml: line 4: unknown key "imagee": allowed are repo, image, setup,`,
		"repositories:\n- {repo: r, repo: s}":                                                        `line 2: mapping key "repo" already defined`,
		"repositories:\n- {repo: [r]}":                                                               "p.yaml: yaml: unmarshal errors:\n  line 2: cannot unmarshal !!seq into string",
		"repositories:\n- {repo: https://h, image: i, setup: s}":                                     "p.yaml:2: the option warm is missing",
		"repositories:\n- {repo: https://h, image: i, setup: s, options: {warm: w, publish: never}}": "p.yaml:2: the option publish is not for a prebuild",
		"repositories:\n- {repo: https://h, image: i, devcontainer: true, options: {warm: w}}":       "p.yaml:2: image, setup and update can't be with devcontainer",
		"repositories:\n- {repo: https://h, image: i, setup: s, options: {warm: w}, timeout: 5}":     `p.yaml:2: the timeout "5" is not possible`,
		"repositories:\n- " + whole + "\n- " + whole:                                                 "p.yaml:3: line 2 has the same repository with the same options",
		"repositories: [" + whole + "]\n---\nx":                                                      "p.yaml: it has more than one document",
		"repositories: [":                                                                            "p.yaml: yaml: line 1",
	} {
		if got, err := Parse("p.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v and %v, want %q", text, got, err, want)
		}
	}
}
