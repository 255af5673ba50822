package siege

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/gitserver/hostile"
	"github.com/helmdeck/repos/internal/gitserver/lfsserver"
)

// Attack is one way to make work.
type Attack struct {
	Name, Abuses string
	// ColdToo says that the victim's cold mounts count too.
	ColdToo bool
	// Longer is how much longer than others it takes until it hurts: git itself needs that for the names.
	Longer time.Duration
	// Alone says that nobody deletes the clones: all must end within its limits.
	Alone bool

	subjects, volumes int               // volumes of each subject, each with an address of its own
	options           map[string]string // beside the address
	base              func(s *Stage) (base, error)
	parts             []string // of other attacks, in place of base
}

// base is a repository of the server that an attack's addresses lead to.
type base struct {
	repo   string
	faults []gitserver.Fault
}

// Attacks are all of them; the names are distinct.
func Attacks() []Attack {
	bomb := func(name string) func(*Stage) (base, error) {
		return func(s *Stage) (base, error) { return s.bomb(hostile.Bomb(name)) }
	}
	small := func(faults ...gitserver.Fault) func(*Stage) (base, error) {
		return func(s *Stage) (base, error) { return s.small(faults...) }
	}
	return []Attack{
		{Name: "honest", Abuses: "nothing: eight clones of a small repository, the control", subjects: 1, volumes: 8, base: small()},
		{Name: "many-names", Abuses: "3.1 million names in 9 KB, of which sparse takes 1,761; six subjects", subjects: 6, volumes: 1, Longer: 30 * time.Second,
			options: map[string]string{"sparse": "000"}, base: bomb("many-names")},
		{Name: "endless-names", Abuses: "10^15 names in 2 KB with filter=blob:none; two subjects", subjects: 2, volumes: 1,
			options: map[string]string{"filter": "blob:none"}, base: bomb("endless-names")},
		{Name: "attribute-files", Abuses: "3,000 directories, each with a .gitattributes of 99 MiB; two subjects", subjects: 2, volumes: 1, base: bomb("attribute-files")},
		{Name: "deltas", Abuses: "a pack of 1.8 MiB that unpacks to 2 TiB, on 16 volumes; four subjects", subjects: 4, volumes: 4, base: bomb("deltas")},
		{Name: "whole-tree", Abuses: "a million files in 1 KB, checked out whole; two subjects", subjects: 2, volumes: 1, base: bomb("whole-tree")},
		{Name: "tree-bomb", Abuses: "ten billion files in 2 KB, checked out whole; two subjects", subjects: 2, volumes: 1, base: func(s *Stage) (base, error) {
			for _, c := range hostile.Cases() {
				if c.Name == "tree-bomb" {
					return s.bomb(c)
				}
			}
			return base{}, errors.New("there is no tree-bomb")
		}},
		// Five milliseconds: faster would be the server's work more than the plugin's.
		{Name: "progress", Abuses: "a remote that sends progress for ever; eight clones", subjects: 1, volumes: 8, base: small(gitserver.Counting(5 * time.Millisecond))},
		{Name: "keep-alive", Abuses: "a remote that sends keep-alives for ever; eight clones", subjects: 1, volumes: 8, base: small(gitserver.KeepAlive(time.Second))},
		{Name: "lfs-batch", Abuses: "an LFS server that answers a batch with headers and no body; four clones", subjects: 1, volumes: 4, base: large(lfsserver.InBatch)},
		{Name: "lfs-download", Abuses: "an LFS server that sends the headers of an object and no content; four clones", subjects: 1, volumes: 4, base: large(lfsserver.InDownload)},
		{Name: "lfs-verify", Abuses: "an LFS server that sends a byte a second, so that nothing can be verified; four clones", subjects: 1, volumes: 4, base: large(lfsserver.InContent)},
		{Name: "clones", Abuses: "64 clones of a large repository at once; one subject", subjects: 1, volumes: 64, ColdToo: true, base: (*Stage).big},
		{Name: "alone", Abuses: "one of each that has no end, and nobody who deletes it: the limits end it", Alone: true,
			parts: []string{"endless-names", "attribute-files", "deltas", "progress", "keep-alive", "lfs-batch", "lfs-download", "lfs-verify"}},
	}
}

// Stage is the servers' side of attacks. Its methods may be called concurrently.
type Stage struct {
	server *gitserver.Server

	mu    sync.Mutex
	bases map[string]base
	made  int
}

// NewStage starts a server in dir, which must be there.
func NewStage(dir string) (*Stage, error) {
	server, err := gitserver.Start(dir)
	if err != nil {
		return nil, err
	}
	return &Stage{server: server, bases: make(map[string]base)}, nil
}

// Close ends the server.
func (s *Stage) Close() error { return s.server.Close() }

// Volumes sets the stage for an attack, and returns volumes that nobody has made yet. They may be fewer than the attack
// has: one of each address.
func (s *Stage) Volumes(a Attack) ([]Volume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.parts == nil {
		return s.volumes(a)
	}
	var all []Volume
	for _, part := range Attacks() {
		for _, name := range a.parts {
			if part.Name != name {
				continue
			}
			part.subjects, part.volumes = 1, 1
			one, err := s.volumes(part)
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
	}
	return all, nil
}

func (s *Stage) volumes(a Attack) ([]Volume, error) {
	b, ok := s.bases[a.Name]
	if !ok {
		var err error
		if b, err = a.base(s); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		s.bases[a.Name] = b
	}
	s.made++
	var list []Volume
	for n := range a.volumes {
		repo := fmt.Sprintf("%s-%d-%d", a.Name, s.made, n)
		if err := os.Symlink(s.server.Path(b.repo), s.server.Path(repo)); err != nil {
			return nil, err
		}
		s.server.Route(repo, b.faults...)
		for subject := range a.subjects {
			v := Volume{Name: fmt.Sprintf("%s-%d", repo, subject), Options: map[string]string{
				"repo": s.server.URL(repo), "subject": fmt.Sprintf("%s%s-%d", Attackers, a.Name, subject),
			}}
			for name, value := range a.options {
				v.Options[name] = value
			}
			list = append(list, v)
		}
	}
	return list, nil
}

func (s *Stage) dir() string { return filepath.Dir(s.server.Path("x")) }

// bomb builds a repository.
func (s *Stage) bomb(c hostile.Case) (base, error) {
	b := base{repo: "base-" + c.Name}
	if _, err := c.Build(s.dir(), b.repo, hostile.Bait{}); err != nil {
		return b, err
	}
	path := s.server.Path(b.repo)
	if b.faults = c.Faults(path, hostile.Bait{}); len(b.faults) > 0 {
		return b, nil
	}
	if text, err := os.ReadFile(filepath.Join(path, "config")); err != nil || strings.Contains(string(text), "allowFilter") {
		return b, err // git itself must answer
	}
	fault, err := gitserver.Frozen(path)
	b.faults = []gitserver.Fault{gitserver.Remember(), fault}
	return b, err
}

// small is an honest repository behind faults.
func (s *Stage) small(faults ...gitserver.Fault) (base, error) {
	b := base{repo: "base-small", faults: faults}
	if _, err := os.Lstat(s.server.Path(b.repo)); err == nil {
		return b, nil
	}
	_, err := gitserver.Generate(s.server.Path(b.repo), gitserver.Spec{Seed: 3, Files: 50})
	return b, err
}

// big is one that takes seconds to index and to check out.
func (s *Stage) big() (base, error) {
	b := base{repo: "base-big"}
	if _, err := gitserver.Generate(s.server.Path(b.repo), gitserver.Spec{Seed: 5, Files: 10_000, Commits: 20, Changes: 100}); err != nil {
		return b, err
	}
	fault, err := gitserver.Frozen(s.server.Path(b.repo))
	b.faults = []gitserver.Fault{gitserver.Remember(), fault}
	return b, err
}

// large is a repository with large files, whose server is silent.
func large(where lfsserver.Where) func(s *Stage) (base, error) {
	return func(s *Stage) (base, error) {
		b := base{repo: fmt.Sprint("base-lfs-", where)}
		if _, err := gitserver.Generate(s.server.Path(b.repo), gitserver.Spec{Seed: 4, Files: 50}); err != nil {
			return b, err
		}
		objects := new(lfsserver.Server)
		files := make(map[string]string)
		for n := range 8 {
			files[fmt.Sprintf("model-%d.bin", n)] = fmt.Sprint(n, strings.Repeat("x", 1<<20))
		}
		_, _, err := objects.Commit(s.server.Path(b.repo), "main", files)
		b.faults = []gitserver.Fault{lfsserver.Hang(where), objects.Serve}
		return b, err
	}
}
