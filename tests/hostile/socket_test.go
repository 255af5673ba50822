package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/wait"
)

func init() { groups = append(groups, socketAttacks) }

// naiveName is the control: a naive plugin uses a volume's name as that of a directory.
const naiveName = `mkdir -p "data/$NAME" && mkdir -p "data/$NAME/tree"`

// socketAttacks returns the attacks by requests that no engine makes.
func socketAttacks() []attack {
	const none = "no control: git is not involved"
	post := func(method, body string, refused bool) func(s *scene) {
		return func(s *scene) { s.post(method, strings.NewReader(body), refused) }
	}
	raw := func(text string) func(s *scene) {
		return func(s *scene) { s.raw(text) }
	}
	name := func(name, abuses, value, script string, effect hostile.Effect) attack {
		body, err := json.Marshal(map[string]any{"Name": value, "Opts": map[string]string{"repo": server.URL("honest")}})
		if err != nil {
			panic(err) // strings can always be marshalled
		}
		a := attack{name: name, abuses: abuses, run: post("VolumeDriver.Create", string(body), true)}
		a.control = control{script: script, why: none, effect: effect, env: func(*trap) []string { return []string{"NAME=" + value} }}
		return a
	}
	noControl := func(name, abuses string, run func(s *scene)) attack {
		return attack{name: name, abuses: abuses, run: run, control: control{why: none}}
	}
	all := []attack{
		name("name-up", "a volume whose name leads out of the data with ..", "../../outside/new", naiveName, hostile.Writes),
		name("name-absolute", "a volume whose name is a path", "/etc/x", "", hostile.None),
		name("name-dots", "a volume that is called ..", "..", "", hostile.None),
		name("name-newline", "a volume whose name has two lines", "a\nb", "", hostile.None),
		name("name-control", "a volume whose name clears the screen of a user who lists it", "a\x1b[2J", "", hostile.None),
		name("name-long", "a volume whose name is longer than a file name may be", strings.Repeat("n", 300), `mkdir "$NAME"`, hostile.Fails),
		name("name-empty", "a volume without a name, whose directory is that of all volumes", "", `mkdir -p data/other; rm -rf "data/$NAME"; [ -d data/other ]`, hostile.Fails),
		noControl("empty", "an empty body, as an engine repeats a request", post("VolumeDriver.Mount", "", true)),
		noControl("not-json", "a body that is not JSON", post("VolumeDriver.Create", "hello", true)),
		noControl("cut", "a body that ends in the middle", post("VolumeDriver.Create", `{"Name":"a","Opts":{"repo`, true)),
		noControl("kinds", "a body with values of other types", post("VolumeDriver.Create", `{"Name":{"a":[1]},"Opts":"x"}`, true)),
		noControl("null", "a body that is null", post("VolumeDriver.Create", `null`, true)),
		noControl("array", "a body that is a list", post("VolumeDriver.Mount", `[{"Name":"a"}]`, true)),
		noControl("nested", "100,000 brackets", post("VolumeDriver.Create", strings.Repeat("[", 100_000), true)),
		noControl("numbers", "a number that is too large for any type", post("VolumeDriver.Get", `{"Name":1e999999}`, true)),
		noControl("utf8", "invalid UTF-8 in a name", post("VolumeDriver.Create", "{\"Name\":\"\xff\xfe\",\"Opts\":{}}", true)),
		noControl("nul", "a NUL in a name", post("VolumeDriver.Mount", `{"Name":"a\u0000b","ID":"x"}`, true)),
		noControl("twice", "a name given twice, for a parser that checks one and uses the other", post("VolumeDriver.Create", `{"Name":"../x","Name":"..","Opts":{}}`, true)),
		noControl("no-id", "a mount without an ID", post("VolumeDriver.Mount", `{"Name":"a"}`, true)),
		noControl("unknown-id", "an unmount of a volume that was never mounted", post("VolumeDriver.Unmount", `{"Name":"../..","ID":"../.."}`, false)),
		noControl("large", "a body of 64 MiB", func(s *scene) { s.post("VolumeDriver.Create", io.LimitReader(blanks{}, 64<<20), true) }),
		noControl("large-id", "a mount ID of 900 KB, which is stored", func(s *scene) { s.longID(strings.Repeat("i", 900_000)) }),
		noControl("id-path", "a mount ID that is a path", func(s *scene) { s.longID("../../../../" + s.Outside + "/new") }),
		noControl("method", "a method that does not exist", post("VolumeDriver.Exec", `{}`, true)),
		noControl("method-up", "a method that is a path with ..", post("../../etc/passwd", `{}`, true)),
		noControl("garbage", "bytes that are not HTTP", raw("\x00\x01\x02\xff\xfe\r\n\r\n")),
		noControl("smuggled", "a request with two lengths, which hides another", raw("POST /VolumeDriver.List HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /VolumeDriver.Remove HTTP/1.1\r\n\r\n")),
		noControl("negative", "a body with a negative length", raw("POST /VolumeDriver.List HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n")),
		noControl("chunk", "a chunk longer than memory", raw("POST /VolumeDriver.Create HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")),
		noControl("headers", "headers without an end", raw("POST /VolumeDriver.List HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 4000))),
		noControl("idle", "500 connections that send nothing", func(s *scene) { s.idle(500) }),
		noControl("other-user", "a user of the machine who is not root", (*scene).otherUser),
	}
	for i := range all {
		all[i].group = "socket"
	}
	return all
}

// post sends a body as it is, and checks whether the answer is an error.
func (s *scene) post(method string, body io.Reader, refused bool) {
	s.Helper()
	resp, err := s.plugin.Client.Post("http://plugin/"+method, "", body)
	if err != nil {
		s.Fatalf("%s: the connection was cut: %v", method, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		s.Errorf("answer: %v", err)
	}
	fmt.Fprintf(&s.said, "%s\n", data)
	var answer map[string]any
	if json.Unmarshal(data, &answer) == nil {
		s.wantPrintable(method, answer)
	}
	if got := resp.StatusCode != http.StatusOK; got != refused {
		s.Errorf("%s: %s: %.300s", method, resp.Status, data)
	}
	s.outcome = "refused"
	if !refused {
		s.outcome = "nothing"
	}
}

// raw writes text to the socket, and reads until the plugin closes the connection.
func (s *scene) raw(text string) {
	s.Helper()
	conn, err := net.Dial("unix", s.plugin.Socket())
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(wait.Most(s)))
	io.WriteString(conn, text) // the plugin may hang up before it has read all
	conn.(*net.UnixConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	s.said.Write(answer)
	if bytes.Contains(answer, []byte("Implements")) || bytes.Contains(answer, []byte("Mountpoint")) {
		s.Errorf("the plugin served the request: %.300q", answer)
	}
	s.outcome = "refused"
}

// longID mounts with an ID that no engine would make. The plugin may accept it, because an ID is
// arbitrary text.
func (s *scene) longID(id string) {
	s.Helper()
	if err := s.create(map[string]string{"repo": server.URL("honest")}); err != nil {
		s.Fatal(err)
	}
	if _, err := s.mount(id); err != nil {
		s.outcome = "refused"
		return
	}
	s.outcome = "mounted"
}

func (s *scene) idle(n int) {
	s.Helper()
	for range n {
		conn, err := net.Dial("unix", s.plugin.Socket())
		if err != nil {
			s.Fatal(err)
		}
		defer conn.Close()
	}
	if err := s.plugin.alive(); err != nil {
		s.Errorf("with %d silent connections: %v", n, err)
	}
	s.outcome = "ignored"
}

// otherUser checks that the user nobody cannot write to the sockets.
func (s *scene) otherUser() {
	s.Helper()
	for _, socket := range []string{s.plugin.Socket(), filepath.Join(filepath.Dir(s.plugin.Socket()), "admin.sock")} {
		if _, err := os.Lstat(socket); err != nil {
			s.Error(err)
		}
		if out, err := exec.Command("setpriv", "--reuid", "65534", "--clear-groups", "test", "-w", socket).CombinedOutput(); err == nil {
			s.Errorf("the user nobody can write to %s: %s", socket, out)
		}
	}
	s.outcome = "refused"
}

// blanks is an endless reader of spaces.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
