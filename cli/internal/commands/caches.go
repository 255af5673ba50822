package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/ask"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type cacheRow struct {
	show.Row
	Clone       string    `header:"CLONE"`
	Subject     string    `header:"SUBJECT"`
	Repo        string    `header:"REPOSITORY"`
	UID         string    `header:"UID"`
	Size        string    `header:"SIZE"`
	Layers      int       `header:"LAYERS"`
	Used        string    `header:"USED"`
	Published   string    `header:"PUBLISHED"`
	GID         string    `header:"GID"`
	Bytes       int64     `header:"BYTES"`
	Inodes      int64     `header:"INODES"`
	UsedAt      time.Time `header:"USED AT"`
	PublishedAt time.Time `header:"PUBLISHED AT"`
}

func newCache(s *session.Session) *cobra.Command {
	return group("cache", "Show, drop and publish dependency caches", newCacheLs(s), newCacheRm(s), newCachePublish(s))
}

func newCacheLs(s *session.Session) *cobra.Command {
	var format show.Format
	cmd := &cobra.Command{
		Use:     "ls [OPTIONS] [SUBJECT|CLONE...]",
		Aliases: []string{"list"},
		Short:   "List the dependency caches, the largest first",
		Long: `List the dependency caches, the largest first: all, or those of subjects and clones. A clone has one for each user
and group of its volumes. CLONE is what "evict" takes.

LAYERS is how many layers with published files a cache has, which the plugin merges when they are too many.
PUBLISHED is when a workspace last published files.`,
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			caches, err := findCaches(ctx, c, args)
			if err != nil {
				return err
			}
			slices.SortStableFunc(caches, func(a, b api.Cache) int { return cmp.Compare(b.Size.Bytes, a.Size.Bytes) })
			if format.Quiet { // the key of a clone once
				seen := make(map[string]bool)
				caches = slices.DeleteFunc(caches, func(c api.Cache) bool {
					again := seen[c.Clone]
					seen[c.Clone] = true
					return again
				})
			}
			rows := make([]cacheRow, len(caches))
			for i, of := range caches {
				rows[i] = cacheRow{
					Clone: of.Clone, Subject: short(format, of.Subject), Repo: short(format, of.Repo),
					UID: number(of.UID), GID: number(of.GID), Size: show.Bytes(of.Size.Bytes), Layers: of.Layers,
					Used: show.Ago(of.Used), Published: show.Ago(of.PublishedAt),
					Bytes: of.Size.Bytes, Inodes: of.Size.Inodes, UsedAt: of.Used, PublishedAt: of.PublishedAt,
				}
			}
			return show.List(s.Out(), format, []string{"Clone", "Subject", "Repo", "UID", "Size", "Layers", "Used", "Published"}, rows)
		}),
		ValidArgsFunction: completed(s, 0, cacheOwners),
	}
	format.AddTo(cmd.Flags(), "the keys of the clones")
	return cmd
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// findCaches returns all caches if there are no words, and else those of the subjects and clones that these
// mean. A subject comes before a clone.
func findCaches(ctx context.Context, c *api.Client, words []string) ([]api.Cache, error) {
	if len(words) == 0 {
		return c.Caches(ctx, api.Filter{})
	}
	var found []api.Cache
	for _, word := range words {
		filter := api.Filter{Subject: word}
		clones, err := c.Clones(ctx, filter)
		if err != nil {
			return nil, err
		}
		if len(clones) == 0 {
			key, err := lookupClone(ctx, c, word)
			if is[unknownError](err) {
				err = fmt.Errorf("there is no subject with a clone, and no clone, that %s names: docker repos ls lists them", quote(word))
			} else if err == nil {
				_, err = c.Clone(ctx, key)
			}
			if err != nil {
				return nil, err
			}
			filter = api.Filter{Clone: key}
		}
		caches, err := c.Caches(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, of := range caches {
			if !slices.ContainsFunc(found, func(f api.Cache) bool { return f.Clone == of.Clone && f.UID == of.UID && f.GID == of.GID }) {
				found = append(found, of)
			}
		}
	}
	return found, nil
}

func newCacheRm(s *session.Session) *cobra.Command {
	var force bool
	var uid uint32
	var path string
	cmd := &cobra.Command{
		Use:        "rm [OPTIONS] CLONE [CLONE...]",
		Aliases:    []string{"remove"},
		SuggestFor: []string{"drop", "delete", "evict", "clear", "clean"},
		Short:      "Drop the published files of clones' caches, or those at one path",
		Long: `Drop the published files of clones' caches. With --path, drop one file or directory, such as a damaged download. Containers that begin from then on download again.

A container that runs keeps what it began with, and publishes at its end what it has written itself. What it uses is
deleted when it has ended. CLONE is the key of a clone, as "cache ls" shows it, the beginning of one or of its
second part, or the URL of a repository that has one clone.`,
		Example: `docker repos cache rm --path npm/_cacache default/0123456789abcdef
docker repos cache rm --uid 1000 https://github.com/octocat/Hello-World`,
		Args: cli.RequiresMinArgs(1),
	}
	cmd.RunE = calling(s, func(ctx context.Context, c *api.Client, args []string) error {
		var parts api.CacheParts
		if cmd.Flags().Changed("uid") {
			parts.UID = &uid
		}
		if cmd.Flags().Changed("path") {
			// A script may have no value for it, which must not mean the whole cache.
			if parts.Path = strings.TrimSuffix(path, "/"); parts.Path == "" {
				return cli.StatusError{StatusCode: 125, Status: "--path is empty: name a path below the cache, such as npm/_cacache"}
			}
		}
		keys := make([]string, len(args))
		for i, word := range args {
			key, err := lookupClone(ctx, c, word)
			if err != nil {
				return err
			}
			keys[i] = key
		}
		if !force {
			if err := ask.Confirm(ctx, s.Docker.In(), s.Out(), dropQuestion(keys, parts), "--force"); err != nil {
				return err
			}
		}
		var freed int64
		err := each(s, keys, func(key string) error {
			d, err := c.DropCache(ctx, key, parts)
			freed += d.Freed.Bytes
			return err
		})
		_, printed := fmt.Fprintln(s.Out(), "Total reclaimed space:", show.Bytes(freed))
		return errors.Join(err, printed)
	})
	cmd.ValidArgsFunction = completed(s, 0, cacheClones)
	cmd.Flags().BoolVarP(&force, "force", "f", false, "Do not prompt for confirmation")
	cmd.Flags().Uint32Var(&uid, "uid", 0, "Only the cache of this user (default all)")
	cmd.Flags().StringVar(&path, "path", "", "Drop only this file or directory below the cache, such as npm/_cacache")
	completeFlag(s, cmd, "uid", cacheUIDs)
	return cmd
}

// dropQuestion returns the text of the prompt.
func dropQuestion(keys []string, parts api.CacheParts) string {
	what, of := "what is published in the cache", fmt.Sprintf("%d clones", len(keys))
	if parts.Path != "" {
		what = show.Text(parts.Path) + " in the cache"
	}
	if parts.UID != nil {
		what += " of the uid " + number(*parts.UID)
	}
	if len(keys) == 1 {
		of = "the clone " + show.Text(keys[0])
	}
	return "WARNING! This will drop " + what + " of " + of + ". The next containers download again.\n" +
		"Containers that run keep what they began with."
}

func newCachePublish(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "publish CONTAINER|VOLUME|ID [CONTAINER|VOLUME|ID...]",
		Short: "Publish what workspaces have in their caches now",
		Long: `Publish what workspaces have in their caches now, wait until that is done, and print how much it was: containers that
begin from then on have it. Without this command, a workspace publishes when it has ended, and one of mode=keep each time that its last
container ends.

Containers may run meanwhile. What they write to is left out, and the command says so. The workspace itself keeps what it
began with. A volume with cache=off or publish=never publishes nothing, and one with publish=marked nothing without a mark.

` + namesWorkspace,
		Args: cli.RequiresMinArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			var sum api.PublishedCache
			var left []string
			err := each(s, args, func(word string) error {
				w, err := lookupWorkspace(ctx, s, c, word)
				if err != nil {
					return err
				}
				p, err := c.PublishCache(ctx, w.ID)
				sum.Files += p.Files
				sum.Bytes += p.Bytes
				for _, why := range p.Left {
					left = append(left, fmt.Sprintf("%s: not published: %s", show.Text(word), show.Text(why)))
				}
				return err
			})
			for _, line := range left {
				fmt.Fprintln(s.Err(), line)
			}
			_, printed := fmt.Fprintf(s.Out(), "Published: %d files, %s\n", sum.Files, show.Bytes(sum.Bytes))
			return errors.Join(err, printed)
		}),
		ValidArgsFunction: completed(s, 0, workspaceOrVolume(s)),
	}
}

var (
	cacheClones   = listed((*api.Client).Caches, func(c api.Cache) string { return c.Clone })
	cacheSubjects = listed((*api.Client).Caches, func(c api.Cache) string { return c.Subject })
	cacheUIDs     = listed((*api.Client).Caches, func(c api.Cache) string { return number(c.UID) })
)

// cacheOwners lists the subjects and clones that have caches.
func cacheOwners(ctx context.Context, c *api.Client) ([]string, error) {
	subjects, err := cacheSubjects(ctx, c)
	if err != nil {
		return nil, err
	}
	keys, err := cacheClones(ctx, c)
	return append(subjects, keys...), err
}
