package warm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// maxSums bounds the sums that are kept in memory, of 100 bytes and the names of the files each, and the keys of unlike.
const maxSums = 10_000

// sumFiles returns what the key of a head has of the files that w names; empty if it names none. The files are read
// once for each tree, until the plugin's next start.
func (m *Manager) sumFiles(ctx context.Context, w Want) (string, error) {
	if len(w.Files) == 0 {
		return "", nil
	}
	id := w.Clone + "/" + m.baseOf(w).Tree + "\x00" + strings.Join(w.Files, "\x00")
	m.mu.Lock()
	text, known := m.sums[id]
	m.mu.Unlock()
	if known {
		return text, nil
	}
	tree, err := upfile.OpenLayers(w.Tree)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	sum := sha256.New()
	for _, name := range w.Files {
		if err := sumFile(ctx, sum, tree, name); err != nil {
			return "", fmt.Errorf("read %q of warm_files: %w", name, err)
		}
	}
	text = hex.EncodeToString(sum.Sum(nil)[:8])
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sums) >= maxSums {
		clear(m.sums)
	}
	m.sums[id] = text
	return text, nil
}

// sumFile adds the name of a file to sum, and its content: of a link, what it names. What is no file is as good as
// missing.
func sumFile(ctx context.Context, sum hash.Hash, tree upfile.Layers, name string) error {
	in, st, err := tree.ParentOf(name)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(sum, "%s\x00missing\x00", name)
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	switch upfile.Kind(&st) {
	case unix.S_IFREG:
		f, err := disk.Open(in, path.Base(name), unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		content := sha256.New()
		for err == nil {
			_, err = io.CopyN(content, f, upfile.Chunk)
			err = cmp.Or(err, context.Cause(ctx))
		}
		fmt.Fprintf(sum, "%s\x00file %x\x00", name, content.Sum(nil))
		if err != io.EOF {
			return err
		}
	case unix.S_IFLNK:
		to, err := os.Readlink(upfile.Below(int(in.Fd()), path.Base(name)))
		fmt.Fprintf(sum, "%s\x00link %s\x00", name, to)
		return err
	default:
		fmt.Fprintf(sum, "%s\x00missing\x00", name)
	}
	return nil
}
