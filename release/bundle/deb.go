package bundle

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// debs makes the Debian packages and copies them into the release.
func (r *release) debs(ctx context.Context) error {
	for _, arch := range Architectures {
		if err := r.make(ctx, []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}, "deb", "VERSION="+r.Version, "ARCH="+arch); err != nil {
			return err
		}
		// Debian sorts ~ before everything, which a pre-release needs.
		pattern := filepath.Join(r.Root, "build/deb", "*_"+strings.Replace(r.Version, "-", "~", 1)+"_"+arch+".deb")
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("make deb made no %s", pattern)
		}
		for _, name := range found {
			if err := copyFile(filepath.Join(r.dir, filepath.Base(name)), name); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
