package handout

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// service serves the socket of one workspace.
type service struct {
	server   *Server
	rec      meta.Workspace
	question Question
	is       repository // what it answers for
	dir      string
	listener *net.UnixListener
	ctx      context.Context
	cancel   context.CancelFunc
	// workspace and subject have a place for each connection that is open, and that is served.
	workspace, subject chan struct{}

	mu      sync.Mutex // guards what follows; never held over I/O
	ended   bool
	conns   map[net.Conn]bool
	last    [sha256.Size]byte // the hash of the secret that was handed out last
	refused credential.Secret // what git said last that a server refused
	noticed time.Time         // when the last event with a notice was
}

// accept accepts connections until close. Those that have no place yet wait in the kernel.
func (v *service) accept() {
	for v.take(v.workspace) {
		conn, err := v.listener.Accept()
		switch {
		case err == nil && v.keep(conn):
			go func() {
				defer func() { <-v.workspace }()
				defer v.drop(conn)
				v.serve(conn)
			}()
			continue
		case v.ctx.Err() != nil:
			return
		}
		<-v.workspace
		v.server.config.Log.WithContext(v.ctx).WithError(err).WithField("workspace", v.rec.ID).Warn("hand out a credential: accept a connection")
		select { // as when the process has too many descriptors
		case <-v.ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// take waits for a place. It reports false if the service ends first.
func (v *service) take(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-v.ctx.Done():
		return false
	}
}

// keep notes a connection, so that close closes it. If the service has ended, it is closed at once.
func (v *service) keep(conn net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		conn.Close()
		return false
	}
	v.conns[conn] = true
	return true
}

func (v *service) drop(conn net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.conns, conn)
	conn.Close()
}

// end closes the service and removes the socket.
func (v *service) end() {
	v.close()
	failpoint.Hit("handout/end/closed")
	if err := Clear(v.dir); err != nil {
		v.server.config.Log.WithContext(v.ctx).WithError(err).WithField("workspace", v.rec.ID).Warn("remove the socket of a workspace that has ended")
	}
}

// close closes the socket and all its connections. Nothing is written to any afterwards.
func (v *service) close() {
	v.cancel()
	v.listener.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	for conn := range v.conns {
		conn.Close()
	}
}

// serve answers one request.
func (v *service) serve(conn net.Conn) {
	if !v.take(v.subject) {
		return
	}
	defer func() { <-v.subject }()
	conn.SetReadDeadline(time.Now().Add(requestWait))
	r, err := readRequest(conn)
	if err != nil {
		v.done(Refused, "", err)
		return
	}
	var text string
	switch r.action {
	case "get":
		text = v.get(r)
	case "erase":
		v.erase(r)
	}
	conn.SetWriteDeadline(time.Now().Add(requestWait))
	conn.Write([]byte(text)) // a client that has gone needs no answer
}

// get returns the text that answers a question: attributes of git's credential protocol, or a line
// that the script shows to the user.
func (v *service) get(r request) string {
	if repo, ok := r.repository(); !ok || repo != v.is {
		v.done(Refused, "", errors.New("it is for another repository"))
		return problem("the credential of this mount is for " + v.question.Repo.String() + " alone")
	}
	a, err := v.ask()
	switch {
	case v.ctx.Err() != nil:
		return ""
	case errors.Is(err, ErrNone):
		v.done(None, "", err)
		return problem("no credential is stored for " + v.question.Repo.String())
	case err == nil:
		err = check(a)
	}
	switch {
	case err != nil: // which may name what is no business of the container
		v.done(Failed, a.Name, err)
		return problem("the credential can't be used: the plugin's log says why")
	case a.Bearer && !r.bearer:
		v.done(None, a.Name, errors.New("this git takes no bearer token"))
		return problem("the credential is a bearer token, which needs git 2.46 in the container")
	case r.user != "" && r.user != a.User && r.user != v.question.Repo.HTTPUser():
		v.done(Refused, a.Name, errors.New("it is for another user"))
		return problem("the credential of this mount is not for the user that the URL names")
	}
	v.handOut(a)
	v.done(Answered, a.Name, nil)
	return text(a)
}

// ask asks for the credential.
func (v *service) ask() (Answer, error) {
	ctx, cancel := context.WithTimeout(v.ctx, answerWait)
	defer cancel()
	q := v.question
	v.mu.Lock()
	q.Refused = v.refused
	v.mu.Unlock()
	return v.server.config.Credential(ctx, q)
}

// problem returns an answer without a secret. git ignores the line, and the script shows it.
func problem(why string) string { return "problem=" + why + "\n" }

// check returns an error if an answer can't be written as lines.
func check(a Answer) error {
	for _, value := range []string{a.User, a.Secret.Reveal()} {
		if strings.ContainsFunc(value, unicode.IsControl) {
			return errors.New("the user or the secret has a line break or a control character")
		}
	}
	if a.Secret.Reveal() == "" || a.User == "" && !a.Bearer {
		return errors.New("the user or the secret is empty")
	}
	return nil
}

// text returns an answer as attributes of git-credential(1).
func text(a Answer) string {
	var b strings.Builder
	if a.Bearer {
		fmt.Fprintf(&b, "capability[]=authtype\nauthtype=Bearer\ncredential=%s\nephemeral=1\n", a.Secret.Reveal())
	} else {
		fmt.Fprintf(&b, "username=%s\npassword=%s\n", a.User, a.Secret.Reveal())
	}
	if !a.Expires.IsZero() {
		fmt.Fprintf(&b, "password_expiry_utc=%d\n", a.Expires.Unix())
	}
	return b.String()
}

// erase notes that a server refused a secret, if it is the one that was handed out last.
func (v *service) erase(r request) {
	repo, ok := r.repository()
	v.mu.Lock()
	defer v.mu.Unlock()
	if ok && repo == v.is && r.password != "" && sha256.Sum256([]byte(r.password)) == v.last {
		v.refused = credential.NewSecret(r.password)
	}
}

// handOut notes the secret of an answer.
func (v *service) handOut(a Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = sha256.Sum256([]byte(a.Secret.Reveal()))
}

// done logs and reports how a question ended, without the secret.
func (v *service) done(result Result, name string, why error) {
	if v.ctx.Err() != nil {
		return
	}
	log := v.server.config.Log.WithContext(v.ctx).WithFields(logrus.Fields{"workspace": v.rec.ID, "volume": v.rec.Volume, "credential": name, "result": string(result)})
	v.mu.Lock()
	now := v.server.config.Now()
	notice := result != Refused && (v.noticed.IsZero() || now.Sub(v.noticed) >= noticePause)
	if notice {
		v.noticed = now
	}
	v.mu.Unlock()
	switch {
	case why == nil:
		log.Debug("hand out a credential: done")
	case result == Failed && notice:
		log.WithError(why).Warn("hand out a credential: failed")
	default:
		log.WithError(why).Debug("hand out a credential: nothing")
	}
	if v.server.config.Observe != nil {
		v.server.config.Observe(v.ctx, Event{Workspace: v.rec, Result: result, Name: name, Notice: notice})
	}
}
