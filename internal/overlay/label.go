package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckContext mounts a scratch overlay below dir with an SELinux context, and returns
// the kernel's error. It leaves nothing behind, and must not run concurrently with Probe.
func CheckContext(dir, context string) error {
	root := filepath.Join(dir, probeDir)
	err := removeProbe(root)
	if err == nil {
		err = try(filepath.Join(root, "context"), Spec{Volatile: true, Context: context}, nil)
	}
	if _, statErr := os.Stat("/sys/fs/selinux/enforce"); err != nil && errors.Is(statErr, fs.ErrNotExist) {
		err = fmt.Errorf("%w: this kernel runs without SELinux", err)
	}
	return errors.Join(err, removeProbe(root))
}
