package handout

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
)

const (
	// perWorkspace and perSubject bound the connections that are served at a time. Others wait in
	// the kernel's queue of the socket. A git asks once for a fetch, and takes milliseconds.
	perWorkspace = 4
	perSubject   = 16
	// requestWait is how long a client may take for its request, and again for the answer. git has
	// the whole request before it connects.
	requestWait = 5 * time.Second
	// answerWait is how long the source of the credential may take.
	answerWait = 30 * time.Second
	// noticePause is the time between two events that are to be recorded of one workspace.
	noticePause = time.Minute
)

// Question says whose credential is asked for.
type Question struct {
	Repo       volume.URL
	Subject    volume.Subject
	Credential string // the option of that name
	// Refused is the secret of an earlier answer that, as the container says, a server refused; else
	// empty.
	Refused credential.Secret
}

// Answer is a credential for git.
type Answer struct {
	Name    string // of the credential, for logs
	User    string // empty for a bearer token
	Secret  credential.Secret
	Bearer  bool      // git sends it as Authorization: Bearer
	Expires time.Time // zero if that is unknown
}

// ErrNone is wrapped by the error of Config.Credential if no credential is for the repository.
var ErrNone = errors.New("no stored credential is for the repository")

// Result says how a question ended.
type Result string

const (
	Answered Result = "answered" // git got a secret
	None     Result = "none"     // there is no credential that this git can use
	Refused  Result = "refused"  // the question was malformed, or for something else
	Failed   Result = "failed"   // the source of the credential failed
)

// Results returns all results.
func Results() []Result { return []Result{Answered, None, Refused, Failed} }

// Event is a question that was answered, or not.
type Event struct {
	Workspace meta.Workspace // as it was when the Server began to serve it
	Result    Result
	Name      string // of the credential
	// Notice is set if the event is to be recorded: of many in a minute only the first is.
	Notice bool
}

// Config is what a Server works with.
type Config struct {
	// Credential returns the credential that answers a question, or an error. It is called for each
	// question, concurrently, and bounds itself how often it asks others because of that.
	Credential func(ctx context.Context, q Question) (Answer, error)
	Log        *logrus.Logger
	Now        func() time.Time
	// Observe is called after each question, concurrently, and must not block. It may be nil.
	Observe func(ctx context.Context, e Event)
}

// Server serves the sockets of workspaces. A nil Server serves none. It is safe for concurrent use,
// but calls for one workspace must follow one another.
type Server struct {
	config   Config
	mu       sync.Mutex // guards what follows; never held over I/O
	served   map[string]*service
	subjects map[volume.Subject]*slots
}

// slots bound the connections of a subject. They are forgotten with its last workspace.
type slots struct {
	free chan struct{}
	uses int
}

// New returns a Server without sockets.
func New(c Config) *Server {
	return &Server{config: c, served: make(map[string]*service), subjects: make(map[volume.Subject]*slots)}
}

// Serve makes the socket in dir, which Make has made, and serves it for a workspace until End. A
// workspace that is served, or whose volume hands nothing out, is left alone.
func (s *Server) Serve(dir string, rec meta.Workspace) error {
	if s == nil || !Wanted(rec.Options) || s.get(rec.ID) != nil {
		return nil
	}
	repo, err := volume.ParseURL(rec.Options["repo"], volume.AllSchemes())
	if err != nil {
		return err
	}
	is, ok := repositoryOf(repo)
	if !ok {
		return errors.New("the volume's URL has no credentials to hand out")
	}
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := writeScript(d); err != nil {
		return err
	}
	l, err := listen(d)
	if err != nil {
		return err
	}
	v := &service{
		server: s, rec: rec, dir: dir, listener: l, is: is,
		question:  Question{Repo: repo, Subject: volume.Subject(rec.Options["subject"]), Credential: rec.Options["credential"]},
		conns:     make(map[net.Conn]bool),
		workspace: make(chan struct{}, perWorkspace),
	}
	v.ctx, v.cancel = context.WithCancel(origin.ForVolume(context.Background(), rec.VolumeID))
	v.subject = s.add(v)
	failpoint.Hit("handout/serve/listening")
	go v.accept()
	return nil
}

func (s *Server) get(id string) *service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[id]
}

// add adds a service, and returns the slots of its subject.
func (s *Server) add(v *service) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[v.rec.ID] = v
	of := s.subjects[v.question.Subject]
	if of == nil {
		of = &slots{free: make(chan struct{}, perSubject)}
		s.subjects[v.question.Subject] = of
	}
	of.uses++
	return of.free
}

// End removes the socket of a workspace, and closes its connections. It does not wait for the source
// of a credential, whose answer then reaches nobody. A workspace that is not served is left alone.
func (s *Server) End(id string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	v := s.served[id]
	delete(s.served, id)
	if v != nil {
		of := s.subjects[v.question.Subject]
		if of.uses--; of.uses == 0 {
			delete(s.subjects, v.question.Subject)
		}
	}
	s.mu.Unlock()
	if v != nil {
		v.end()
	}
}

// Close ends the service of all workspaces. Their sockets stay on the disk, and refuse connections,
// until the next start serves them again or clears them.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.served {
		v.close()
		delete(s.served, id)
	}
	clear(s.subjects)
}
