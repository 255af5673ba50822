package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The names of the page and of the picture beside it.
const (
	pageName = "performance.md"
	plotName = "warm-mount.svg"
)

// writePage writes the page and the picture into dir, from the results in a file.
func writePage(results, dir string) error {
	r, err := read(results)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, plotName), []byte(r.plot()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, pageName), []byte(r.page()), 0o644)
}

// page returns the report as a Markdown page.
func (r *report) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, plotName, r.head())
	sizes := r.sizes()
	b.WriteString("| |")
	for _, files := range sizes {
		fmt.Fprintf(&b, " %s files |", thousands(files))
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(sizes)) + "\n")
	for _, l := range r.lines() {
		name := "**" + l.name + "**"
		if l.peer {
			name = "&nbsp;&nbsp;" + l.name
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(l.cells, " | "))
	}
	fmt.Fprintf(&b, "\n## Targets\n\nThe targets are for %s files. %s.\n\n| target | measured | limit | |\n| --- | ---: | ---: | --- |\n", thousands(targetFiles), r.verdict())
	for _, t := range r.Targets {
		got, limit := t.figures()
		fmt.Fprintf(&b, "| %s | %s (%s) | %s | %s |\n", t.Name, got, t.Note, limit, t.verdict())
	}
	return b.String() + pageFoot
}

const pageHead = `# Performance

This page compares the time and space for a workspace with those of other ways to get a checkout. ` + "`make performance`" + ` writes it
from the results of one run of ` + "`make bench`" + ` on one machine. The ratios say more than the times.

![Time until a clean workspace is ready, over the number of files](%s)

%s. The remote is git's own http-backend on loopback. A remote elsewhere adds round trips to every row that asks it, ours included: the rows of the group *distance* say how many.

## One run

The table has medians, and in parentheses their ratio to our row, in bold above. Rows that are compared were measured in turns, on one new filesystem.

`

const pageFoot = `
## Repeat it

` + "```console" + `
$ make bench                                  # everything, as root: some 26 minutes on two cores, up to 12 GB in /var/tmp
$ make bench FILES=1000 RUNS=3                # a quick run
$ make bench FILES=100000 ROWS=warm,update    # some groups of rows; a wrong name lists all groups
$ make bench ROWS=distance                    # only what a remote 30 ms away costs
$ make bench AGAINST=main                     # only the plugin, compared with that commit's build: nine turns with 100,000 files, into build/bench-against.json
$ make performance                            # this page and its picture, from build/bench.json
` + "```" + `

Run it while the machine does nothing else. On Ctrl-C it stops and removes its files and mounts.

## What is measured

- The repository is generated. It has the given number of files of 0.2 to 8 KB, in a tree three to five levels deep, 20 commits after the first one,
  branches and tags. Volumes have ` + "`refresh=always`" + `, so that every mount asks the remote, but for those whose
  Create is measured with the first Mount.
- ` + "**Mount**, **Create** and **Unmount**" + ` are requests on the plugin's socket, measured until the answer. ` + "**docker run**" + ` is
  ` + "`docker run --rm … true`" + ` in a separate engine with the managed plugin, measured until the container has ended.
- *cold*: the plugin has nothing of the repository. *warm*: it has the clone, and the remote has nothing new.
- ` + "`git clone --reference`" + ` has an up-to-date mirror on the same disk; the update of the mirror is not measured. *git-sync's way* is a bare repository,
  a worktree for each commit and a symlink; with nothing new it asks the remote and checks the worktree. It and *in place* (` + "`fetch`, `reset --hard`, `clean -ffdx`" + `)
  have one working tree, which containers would have to share.
- A dirty file is a new file of 1 KB. The files of an ended workspace stay as a discard, which is counted in the background while the next mount is measured.
- *Mounts at once* are measured until the last one has answered.
- *30 ms away*: the server has TLS with HTTP/2 and HTTP/1.1, and a proxy in front of it delivers every byte 15 ms later, in both directions,
  without a limit on the bandwidth. A new connection costs one round trip for TCP, and those of TLS. *0 ms away* is the same without the delay.
  *Extra round trips* are the difference of these two times, which are measured in turns, divided by 30 ms.
- *Questions* are requests for refs (ls-refs). Directly before each Mount at a distance, another Mount has left its
  connection open, if the plugin keeps connections; *after the server hung up*, the server has closed it. A *nameless volume* is that of ` + "`docker run --mount`" + `
  without a source, which is created and removed with the container; ` + "`--workdir`" + ` is its path there.
- *after POST /v1/refresh*: the request follows the push, and the mount follows its answer. *with KEEP_READY*: the plugin has noticed the push by itself;
  each sample has a branch of its own, because one wait of a minute must do for all.
- The repository with *20,000 commits* is another one. It has 2,000 files; each commit replaces a line in two of them. It is packed, with a bitmap.
- Every group of rows has a new ext4 filesystem with a journal, on a loop device with direct I/O. Nothing was deleted on it before. Without a journal
  (some machines' root has none) ext4 checks every inode that was deleted in the last minutes when it creates a file.
`
