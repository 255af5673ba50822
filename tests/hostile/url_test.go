package hostile

import (
	"encoding/json"
	"net/http"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/go-plugins-helpers/volume"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
)

func init() { groups = append(groups, urlAttacks) }

// The naive solutions that the controls attack: scripts with the option in $VALUE, which allow all
// transports.
const (
	loose      = `export GIT_ALLOW_PROTOCOL=http:https:ssh:git:file:ext; `
	cloneValue = loose + `git clone -q "$VALUE" w; cat w/secret w/.git/config`
	// A script that was meant to run "git clone $repo $dir".
	asOption = loose + `git clone -q "$VALUE" "$OUTSIDE/repo.git" w; true`
	fetchRef = loose + `git init -q w && cd w && git fetch -q "$OUTSIDE/repo.git" "$VALUE"; git fetch -q "$VALUE" "$OUTSIDE/repo.git"; true`
)

// urlAttacks returns the attacks through a volume's options. The plugin must refuse all of them
// before it uses them.
func urlAttacks() []attack {
	type option struct {
		name, abuses string
		option       string
		value        string // with CANARY, OUTSIDE, BAIT and HOST (the bait's host and port) in place of the trap's values
		script       string
		why          string
		effect       hostile.Effect
	}
	const valid = "no control: git is not involved"
	options := []option{
		{"ext", "a transport that is a command", "repo", "ext::sh -c touch% CANARY", cloneValue, "", hostile.Runs},
		{"ext-upper", "a transport that is a command, in capitals", "repo", "EXT::sh -c touch% CANARY", cloneValue, "", hostile.None},
		{"fd", "a transport over descriptors of the plugin", "repo", "fd::0", cloneValue, "", hostile.None},
		{"helper", "a transport helper with any name", "repo", "testgit::OUTSIDE", cloneValue, "", hostile.None},
		{"file", "a repository on the plugin's disk", "repo", "file://OUTSIDE/repo.git", cloneValue, "", hostile.Reads},
		{"file-upper", "a repository on the plugin's disk, in capitals", "repo", "FILE://OUTSIDE/repo.git", cloneValue, "", hostile.None},
		{"file-host", "a file URL with a host", "repo", "file://localhost/OUTSIDE/repo.git", cloneValue, "", hostile.Reads},
		{"path", "a path on the plugin's disk", "repo", "OUTSIDE/repo.git", cloneValue, "", hostile.Reads},
		{"path-relative", "a relative path", "repo", "../outside/repo.git", cloneValue, "", hostile.Reads},
		{"path-git", "a path with .git at the end left out", "repo", "OUTSIDE/repo", cloneValue, "", hostile.Reads},
		{"bundle", "a bundle on the plugin's disk", "repo", "OUTSIDE/repo.bundle", cloneValue, "", hostile.Reads},
		{"option", "an option in place of the repository", "repo", "--upload-pack=touch CANARY;", asOption, "", hostile.Runs},
		{"option-short", "a short option in place of the repository", "repo", "-utouch CANARY;", asOption, "", hostile.Runs},
		{"option-config", "a setting in place of the repository", "repo", "-ccore.sshCommand=touch CANARY", asOption, "", hostile.None},
		{"ssh-option", "a host that is an option of ssh", "repo", "ssh://-oProxyCommand=touch CANARY/x", cloneValue, "", hostile.None},
		{"ssh-user-option", "a user that is an option of ssh", "repo", "ssh://-oProxyCommand=x@127.0.0.1/x", cloneValue, "", hostile.None},
		{"scp-option", "the short form of an ssh URL with an option as host", "repo", "-oProxyCommand=touch CANARY:x", cloneValue, "", hostile.None},
		{"ssh-path-option", "a path that is an option of the program at the other end", "repo", "ssh://127.0.0.1/-x", cloneValue, "", hostile.None},
		{"password", "a password in the URL ends up in .git/config", "repo", "http://ada:the secret of somebody else@HOST/x",
			loose + `git clone -q "http://ada:the%20secret@${BAIT#http://}/x" w; git init -q w; git -C w remote add origin "$VALUE"; git -C w remote -v`, "", hostile.Reads},
		{"token", "a token as user in the URL", "repo", "http://ghp_0123456789abcdefghijklmnopqrstuvwxyz@HOST/x", cloneValue, "", hostile.Asks},
		{"newline", "a newline in the URL, for credential helpers and files", "repo", "BAIT/x\nhost=github.com", cloneValue, "", hostile.None},
		{"newline-encoded", "a newline in the URL, percent-encoded", "repo", "BAIT/x%0ahost=github.com", cloneValue, "", hostile.None},
		{"nul", "a NUL in the URL", "repo", "BAIT/x\x00/y", "", valid, hostile.None},
		{"control", "control characters in the URL, for a user who reads the error", "repo", "BAIT/\x1b[2J", cloneValue, "", hostile.None},
		{"bidi", "a URL that reads backwards", "repo", "BAIT/\u202egnp.x", cloneValue, "", hostile.None},
		{"dotdot", "a URL with .. in its path", "repo", "BAIT/a/../../x", cloneValue, "", hostile.None},
		{"dotdot-encoded", "a URL with .. in its path, percent-encoded", "repo", "BAIT/a/%2e%2e/x", cloneValue, "", hostile.None},
		{"backslash", "a backslash that parsers disagree about", "repo", `http://github.com\@HOST/x`, cloneValue, "", hostile.None},
		{"authority", "an authority that reads in two ways", "repo", "http://github.com#@HOST/x", cloneValue, "", hostile.None},
		{"query", "a query that swallows what git appends", "repo", "BAIT/x?a=", cloneValue, "", hostile.None},
		{"idn", "a host of look-alike letters", "repo", "http://gіthub.com/x", "", valid, hostile.None},
		{"long", "a URL of 100,000 bytes", "repo", "BAIT/" + strings.Repeat("a", 100_000), cloneValue, "", hostile.None},
		{"scheme-git", "the unauthenticated git protocol, which the settings do not allow", "repo", "git://HOST/x", cloneValue, "", hostile.None},
		{"scheme-ftp", "an obsolete transport", "repo", "ftp://HOST/x", cloneValue, "", hostile.None},
		{"two-repos", "a second repository under the option's other name", "url", "BAIT/other", "", valid, hostile.None},
		{"ref-option", "an option in place of the ref", "ref", "--upload-pack=touch CANARY;", fetchRef, "", hostile.Runs},
		{"ref-refspec", "a refspec in place of the ref: it writes another ref", "ref", "+refs/heads/main:refs/heads/other", fetchRef, "", hostile.None},
		{"ref-revision", "an expression in place of the ref", "ref", "main@{upstream}", fetchRef, "", hostile.None},
		{"ref-dotdot", "a ref that is a path", "ref", "refs/../../../outside/new", `mkdir -p w/refs "w/$VALUE"`, "", hostile.Writes},
		{"ref-lock", "a ref with the name of another ref's lock", "ref", "refs/heads/main.lock", fetchRef, "", hostile.None},
		{"ref-newline", "a newline in the ref, which is written into a file", "ref", "main\n[core]\n\tfsmonitor=touch CANARY",
			`git init -q w && printf '[branch "x"]\n\tmerge = %s\n' "$VALUE" >>w/.git/config && git -C w status; true`, "", hostile.Runs},
		{"ref-glob", "a pattern in place of the ref", "ref", "refs/heads/*", fetchRef, "", hostile.None},
		{"subject-nul", "a subject with a NUL", "subject", "a\x00b", "", valid, hostile.None},
		{"subject-long", "a subject longer than a file name", "subject", strings.Repeat("s", 300), `mkdir "$VALUE"`, "", hostile.Fails},
		{"sparse-up", "a directory out of the tree", "sparse", "../../outside", "", valid, hostile.None},
		{"sparse-pattern", "a pattern in place of a directory", "sparse", "!/*", "", valid, hostile.None},
		{"sparse-newline", "a line break that adds patterns", "sparse", "a\n/../../x", "", valid, hostile.None},
		{"depth-option", "an option in place of a number", "depth", "--upload-pack=touch CANARY;", loose + `git clone -q "$VALUE" "$OUTSIDE/repo.git" w; true`, "", hostile.Runs},
		{"filter-option", "a filter that the plugin does not support", "filter", "sparse:oid=main:secret", "", valid, hostile.None},
		{"uid-none", "the uid that tells chown to change nothing", "uid", "4294967295", "", valid, hostile.None},
		{"uid-negative", "a negative number, which wraps to another user", "uid", "-1", "", valid, hostile.None},
		{"credential-path", "a credential's name that is a path", "credential", "../../outside/secret", `mkdir credentials; cat "credentials/$VALUE"`, "", hostile.Reads},
		{"unknown", "an option that nobody knows", "o", "bind", "", valid, hostile.None},
	}
	var all []attack
	for _, o := range options {
		value := func(tr *trap) string {
			return strings.NewReplacer("CANARY", tr.Canary, "OUTSIDE", tr.Outside, "BAIT", tr.URL, "HOST", strings.TrimPrefix(tr.URL, "http://")).Replace(o.value)
		}
		all = append(all, attack{
			group: "url", name: o.name, abuses: o.abuses, prepare: temptingRepository,
			control: control{script: o.script, why: o.why, effect: o.effect, env: func(tr *trap) []string { return []string{"VALUE=" + value(tr)} }},
			run: func(s *scene) {
				options := map[string]string{"repo": server.URL("honest"), o.option: value(s.trap)}
				if err := s.create(options); err == nil {
					s.Errorf("Create succeeded, want an error")
					return
				}
				s.outcome = "refused"
				s.wantNoClone()
			},
		})
	}
	return append(all, attack{
		group: "url", name: "subject-escapes", abuses: "a subject, and an operator's name, that write to the terminal of whoever reads logs and metrics",
		control: control{why: valid}, run: (*scene).writeToTerminals,
	})
}

// writeToTerminals uses a subject with control characters in all requests, and in those of an
// operator. The logs and the metrics are looked at when all cases have ended.
func (s *scene) writeToTerminals() {
	s.Helper()
	const escapes = "a\x1b]0;owned\x07\r\n\x7f\u009b2J\u202etxt.\u2028"
	url := server.URL("honest")
	if err := s.create(map[string]string{"repo": url, "subject": escapes, "ref": "missing" + escapes}); err == nil {
		s.Error("a ref with control characters is accepted")
	}
	if err := s.create(map[string]string{"repo": url, "subject": escapes, "from": "0123456789abcdef"}); err == nil {
		s.Error("restored what nobody has")
	}
	if err := s.create(map[string]string{"repo": url, "subject": escapes, "warm": "node_modules"}); err != nil {
		s.Fatal(err)
	}
	const id = "id\x1b[2J"
	s.mustMount(id)
	for path, body := range map[string]any{
		"/v1/refresh": api.Refresh{Repo: url, Subject: escapes},
		"/v1/warm":    api.Warm{Repo: url, Subject: escapes},
		"/v1/subjects/" + neturl.PathEscape(escapes) + "/fresh":  api.Fresh{},
		"/v1/workspaces/" + neturl.PathEscape(escapes) + "/push": api.Push{Branch: escapes},
	} {
		text, err := json.Marshal(body)
		if err != nil {
			s.Fatal(err)
		}
		status, answer, err := s.plugin.operator(http.MethodPost, path, "\u009b2J\u202etxt.", string(text))
		if err != nil {
			s.Error(err)
		}
		s.Logf("%s: %d %.300q", path, status, answer)
	}
	// What a volume has as its subject is no text of the plugin's: docker writes it as JSON.
	s.unmount(id)
	if _, err := s.call("VolumeDriver.Remove", volume.RemoveRequest{Name: s.volume}); err != nil {
		s.Error(err)
	}
	s.outcome = "mounted"
}

// temptingRepository makes a repository with the secret in Outside: a bare one and a bundle.
func temptingRepository(t *testing.T, tr *trap) {
	t.Helper()
	cmd := exec.Command("sh", "-euc", `
		git init -q -b main work && cp secret work/ && cd work && git add secret && git commit -qm secret
		git clone -q --bare . ../repo.git && git bundle create -q ../repo.bundle main HEAD && rm -rf ../work`)
	cmd.Dir = tr.Outside
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(tr.dir, "none"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a repository in Outside: %v: %s", err, out)
	}
}
