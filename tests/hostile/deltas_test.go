package hostile

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
)

// deltaBombs are packs of some hundred kilobytes that unpack to up to 1 TiB. Each is that of a subject.
var deltaBombs = []struct {
	size     int64
	n, chain int
}{
	{96 << 20, 10_000, 50}, // wide
	{1 << 20, 5_000, 5_000},
	{400 << 20, 1_000, 50},
	{96 << 20, 10_000, 50},
}

// pushDeltas puts one of deltaBombs into a container of each subject. The attack asks for what reads all objects.
func pushDeltas(b *battle) (func(ctx context.Context), error) {
	var ids []string
	for n, bomb := range deltaBombs {
		dir, id, err := b.workspace(fmt.Sprint("deltas-", n), b.server)
		if err != nil {
			return nil, err
		}
		b.commitIn(dir, fmt.Sprint("mine-", n))
		pack := filepath.Join(dir, ".git/objects/pack/pack-"+strings.Repeat("ab", 20)+".pack")
		if err := os.WriteFile(pack, hostile.Deltas(bomb.size, bomb.n, bomb.chain), 0o444); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	kinds := []string{statuses, pushing, "bundle"}
	return func(ctx context.Context) {
		loop(ctx, len(kinds)*len(ids), func(ctx context.Context, i int) {
			switch id, kind := ids[i/len(kinds)], kinds[i%len(kinds)]; kind {
			case statuses:
				b.inspect(ctx, id, statuses, io.Discard)
			case pushing:
				b.push(ctx, id, fmt.Sprint("deltas-", i))
			default:
				_, _, err := b.plugin.Admin.Outbound(id).Bundle(ctx, api.Bundle{}, io.Discard)
				b.note(kind, err)
			}
		})
	}, nil
}

// children returns an error while the plugin has fewer than n children.
func (b *battle) children(n int) error {
	list, err := b.plugin.Children()
	if err == nil && len(list) < n {
		err = fmt.Errorf("%d of %d children", len(list), n)
	}
	return err
}
