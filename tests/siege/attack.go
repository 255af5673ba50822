package siege

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
)

// Attack is one way to cause work.
type Attack struct {
	Name, Abuses string
	// ColdToo is set if the victim's cold mounts count too.
	ColdToo bool
	// Longer is how much longer than other attacks it must run before it hurts, because git takes
	// that long for the names.
	Longer time.Duration
	// Alone is set if nobody deletes the clones: the plugin's own limits must end all work.
	Alone bool
	// Again is set if the clones end too early: a volume that is mounted is followed by a new one.
	Again bool

	subjects, volumes int               // volumes counts those of each subject; each has its own URL
	options           map[string]string // in addition to repo and subject
	base              func(s *Stage) (base, error)
	parts             []string // names of the attacks that it consists of; base is nil then
}

// base is the server's repository to which an attack's URLs lead, and the faults in front of it.
type base struct {
	repo   string
	faults []gitserver.Fault
}

// Attacks returns all attacks. Their names are distinct.
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
			return base{}, errors.New("package hostile has no case tree-bomb")
		}},
		// With an interval below five milliseconds the server would have more work than the plugin.
		{Name: "progress", Abuses: "a remote that sends progress for ever; eight clones", subjects: 1, volumes: 8, base: small(gitserver.Counting(5 * time.Millisecond))},
		{Name: "keep-alive", Abuses: "a remote that sends keep-alives for ever; eight clones", subjects: 1, volumes: 8, base: small(gitserver.KeepAlive(time.Second))},
		{Name: "lfs-batch", Abuses: "an LFS server that answers a batch with headers and no body; four clones", subjects: 1, volumes: 4, base: silentLFS(lfsserver.InBatch)},
		{Name: "lfs-download", Abuses: "an LFS server that sends the headers of an object and no content; four clones", subjects: 1, volumes: 4, base: silentLFS(lfsserver.InDownload)},
		{Name: "lfs-verify", Abuses: "an LFS server that sends a byte a second, so that nothing can be verified; four clones", subjects: 1, volumes: 4, base: silentLFS(lfsserver.InContent)},
		{Name: "clones", Abuses: "64 clones of a large repository at once; one subject", subjects: 1, volumes: 64, ColdToo: true, base: (*Stage).big},
		{Name: "histories", Abuses: "eight clones of a large history at once, again and again; eight subjects", Again: true, subjects: 8, volumes: 1, base: (*Stage).history},
		{Name: "alone", Abuses: "one of each attack that has no end, and nobody deletes the clones: the limits end it", Alone: true,
			parts: []string{"endless-names", "attribute-files", "deltas", "progress", "keep-alive", "lfs-batch", "lfs-download", "lfs-verify"}},
	}
}

// Stage has the servers for attacks. Its methods may be called concurrently.
type Stage struct {
	server *gitserver.Server

	mu    sync.Mutex
	bases map[string]base
	made  int
}

// NewStage starts a server in dir, which must exist.
func NewStage(dir string) (*Stage, error) {
	server, err := gitserver.Start(dir)
	if err != nil {
		return nil, err
	}
	return &Stage{server: server, bases: make(map[string]base)}, nil
}

// Close ends the server.
func (s *Stage) Close() error { return s.server.Close() }

// Volumes prepares the repositories of an attack and returns its volumes, which the caller has yet
// to create. URLs and names are new with each call. An attack with parts has one volume for each of
// them.
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

// Following returns volumes for those that are mounted before the end of an attack; nil unless it goes on
// so. The other one for a volume has its index.
func (s *Stage) Following(a Attack) func() ([]Volume, error) {
	if !a.Again {
		return nil
	}
	return func() ([]Volume, error) { return s.Volumes(a) }
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
				"repo": s.server.URL(repo), "subject": fmt.Sprintf("%s%s-%d", SubjectPrefix, a.Name, subject),
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

// bomb builds a hostile repository.
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
		return b, err // git must answer each request itself, because of the filter
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

// big is an honest repository that takes seconds to index and to check out.
func (s *Stage) big() (base, error) {
	return s.frozen("base-big", gitserver.Spec{Seed: 5, Files: 10_000, Commits: 20, Changes: 100})
}

// history is an honest repository whose deltas take seconds to resolve.
func (s *Stage) history() (base, error) {
	return s.frozen("base-history", gitserver.Spec{Seed: 6, Files: 300, Commits: 1200, Changes: 4, Grow: true})
}

// frozen is an honest repository whose server does almost nothing.
func (s *Stage) frozen(repo string, spec gitserver.Spec) (base, error) {
	b := base{repo: repo}
	if _, err := gitserver.Generate(s.server.Path(b.repo), spec); err != nil {
		return b, err
	}
	fault, err := gitserver.Frozen(s.server.Path(b.repo))
	b.faults = []gitserver.Fault{gitserver.Remember(), fault}
	return b, err
}

// silentLFS is a repository with large files, whose LFS server falls silent.
func silentLFS(where lfsserver.Where) func(s *Stage) (base, error) {
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
