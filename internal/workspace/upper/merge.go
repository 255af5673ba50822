package upper

import (
	"context"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/workspace/replica"
)

// mergeNiceness is low, because the next workspace may wait for a merge.
const mergeNiceness = 3

// Merge makes the empty directory dir the upper of a checkpoint that stands on nothing, and has what uppers, topmost
// first, show together. It yields to what needs the processor. The errors are those of replica.Merge.
func Merge(ctx context.Context, uppers []string, dir string, o replica.Options) (r replica.Result, err error) {
	layers, err := upfile.OpenLayers(uppers)
	if err != nil {
		return r, err
	}
	defer layers.Close()
	to, err := upfile.OpenDir(dir)
	if err != nil {
		return r, err
	}
	defer to.Close()
	disk.Nice(mergeNiceness, func() { r, err = replica.Merge(ctx, layers, to, o) })
	return r, err
}
