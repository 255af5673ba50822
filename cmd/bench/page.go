package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The page, and the picture beside it.
const (
	pageName = "performance.md"
	plotName = "warm-mount.svg"
)

// writePage writes both into dir, from the results in the file results.
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
	fmt.Fprintf(&b, "\n## Targets\n\nThey are for %s files. %s.\n\n| target | measured | limit | |\n| --- | ---: | ---: | --- |\n", thousands(targetFiles), r.verdict())
	for _, t := range r.Targets {
		got, limit := t.figures()
		fmt.Fprintf(&b, "| %s | %s (%s) | %s | %s |\n", t.Name, got, t.Note, limit, t.verdict())
	}
	return b.String() + pageFoot
}

const pageHead = `# Performance

What a workspace costs, beside what is done today for the same. This page is one run of ` + "`make bench`" + ` on one machine, written by
` + "`make performance`" + ` from its results: the ratios say more than the times.

![Time until a clean workspace is ready, over the number of files](%s)

%s. The remote is git's own http-backend on loopback: a real one adds its distance to every row that asks it, ours included.

## One run

Medians; in parentheses how many times ours, the row in bold above. Rows that are compared were measured in turns, on one fresh filesystem.

`

const pageFoot = `
## Repeat it

` + "```console" + `
$ make bench                                  # all of it, as root: less than 20 minutes on two cores, up to 12 GB in /var/tmp
$ make bench FILES=1000 RUNS=3                # a quick look
$ make bench FILES=100000 ROWS=warm,update    # some groups of rows; a wrong name lists them
$ make bench AGAINST=main                     # the plugin alone, beside that commit's build: nine turns with 100,000 files, into build/bench-against.json
$ make performance                            # this page and its picture, from build/bench.json
` + "```" + `

Run it while the machine does nothing else. It stops on Ctrl-C and takes away what it made.

## What is measured

- The repository is generated: so many files of 0.2 to 8 KB in a tree three to five levels deep, 20 commits after the first, branches and tags.
  All volumes have ` + "`refresh=always`" + `, so every mount asks the remote.
- ` + "**Mount**, **Create** and **Unmount**" + ` are requests on the plugin's socket, until the answer. ` + "**docker run**" + ` is a container's whole life
  (` + "`docker run --rm … true`" + `) in an engine of its own with the managed plugin.
- *cold*: nothing of the repository is there. *warm*: the clone is there, and the remote has nothing new.
- ` + "`git clone --reference`" + ` has a mirror on the same disk, which nobody had to update. *git-sync's way* is a bare repository, a worktree per commit and a symlink; with
  nothing new it asks, and checks the worktree. It and *in place* (` + "`fetch`, `reset --hard`, `clean -ffdx`" + `) have one working tree, which containers would have to share.
- A dirty file is a new one of 1 KB. What an ended workspace held stays as a discard and is counted in the background, while the next mount is measured.
- *Mounts at once* end when the last one has answered. ` + "`git fetch`" + ` asks for refs itself; that question is not among those that are counted.
- Every group of rows has a fresh ext4 filesystem with a journal, on a loop device with direct I/O. Nothing was deleted on it before, for an ext4 without a
  journal (some machines' root has none) looks at every inode that was deleted in the last minutes when it makes a new one.
`
