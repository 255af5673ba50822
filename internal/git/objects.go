package git

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
)

// MissingBlobs returns the IDs of the files in a commit's cone whose contents the
// store does not have, each once.
func (g *Git) MissingBlobs(ctx context.Context, store, commit string, cone Cone) ([]string, error) {
	ids, err := g.blobs(ctx, store, commit, cone)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var missing []string
	err = g.eachRecord(ctx, command{
		op:    "look for the files of " + commit,
		args:  []string{"--git-dir=.", "cat-file", "--batch-check=%(objectname)"},
		stdin: strings.Join(ids, "\n") + "\n",
		dir:   store, uid: g.uid, gid: g.gid, read: []string{store},
	}, '\n', func(line string) error {
		if id, ok := strings.CutSuffix(line, " missing"); ok {
			missing = append(missing, id)
		}
		return nil
	})
	return missing, err
}

// blobs lists the IDs of the files in a commit's cone, each once.
func (g *Git) blobs(ctx context.Context, store, commit string, cone Cone) ([]string, error) {
	var ids []string
	seen, selected := make(map[string]bool), cone.selector()
	err := g.eachRecord(ctx, command{
		op:   "list the files of " + commit,
		args: []string{"--git-dir=.", "ls-tree", "-r", "-z", "--full-tree", commit},
		dir:  store, uid: g.uid, gid: g.gid, read: []string{store},
	}, 0, func(entry string) error {
		info, name, ok := strings.Cut(entry, "\t")
		fields := strings.Fields(info) // mode, type, ID
		if !ok || len(fields) != 3 || !isObjectID(fields[2]) {
			return fmt.Errorf("ls-tree %s: unexpected entry %q", commit, entry)
		}
		if id := fields[2]; fields[1] == "blob" && !seen[id] && selected(name) {
			seen[id] = true
			ids = append(ids, id)
		}
		return nil
	})
	return ids, err
}

// maxRecord bounds one record: a path is at most 4 KiB on Linux, and a tree that
// holds a longer one can't be checked out.
const maxRecord = 1 << 20

// eachRecord runs c and calls f for each record of its output, which may be
// larger than what run returns.
func (g *Git) eachRecord(ctx context.Context, c command, end byte, f func(record string) error) error {
	r, w := io.Pipe()
	c.stdout = w
	ran := make(chan error, 1)
	go func() {
		_, err := g.run(ctx, c)
		w.Close()
		ran <- err
	}()
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxRecord)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, end); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return 0, nil, io.ErrUnexpectedEOF // git ends every record
		}
		return 0, nil, nil
	})
	var err error
	for err == nil && s.Scan() {
		err = f(s.Text())
	}
	// A command that still writes is told that nobody reads.
	r.CloseWithError(io.ErrClosedPipe)
	runErr := <-ran
	switch {
	case err != nil:
		return err
	case runErr != nil:
		return runErr
	}
	return s.Err()
}
