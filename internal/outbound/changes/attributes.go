package changes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/git"
)

const (
	attributesName = ".gitattributes"
	// attributeTime bounds how long git matches patterns, its wait for a turn included.
	attributeTime = 20 * time.Second
)

var errAttributesSlow = fmt.Errorf("to match the patterns of all .gitattributes files takes more than %v", attributeTime)

// conversions returns what git does to the files of a side before it stores them, by the number of their change in
// inPatch; nothing if no file has an attribute. git decides that, in a work tree that has nothing but copies of the
// files .gitattributes below root. What can't be found out is a remark: such files are then taken as they are.
func (p *Patch) conversions(ctx context.Context, root *os.File, set *Set, ignored bool) (list []conversion, err error) {
	work, n := filepath.Join(p.repo.dir, "work"), 0
	defer os.RemoveAll(work)
	notConverted := func(path, why string) {
		p.remark("files that %s names are as they are in the work tree: %s", quoted(path), why)
	}
	err = p.reader.compute(ctx, func() (err error) {
		n, err = copyNamed(root, attributesName, set.inPatch(ctx, ignored, nil), work, maxIgnoreDirs, maxIgnoreMade, notConverted)
		return err
	})
	if err != nil || n == 0 {
		return nil, err
	}
	limited, stop := context.WithTimeoutCause(ctx, attributeTime, errAttributesSlow)
	defer stop()
	c := git.Command{Op: "read the attributes of what changed", Heavy: true, Read: []string{work}}
	c = p.reader.Git.InStore(p.repo.git(), c, append([]string{"--work-tree=" + work, "check-attr", "-z", "--stdin"}, attributes[:]...)...)
	ask := func(ctx context.Context, w *bufio.Writer) error {
		for c, err := range set.inPatch(ctx, ignored, nil) {
			if err == nil {
				_, err = w.WriteString(c.Path + "\x00")
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var values [len(attributes)]string
	fields := 0
	err = p.reader.Git.EachAnswer(limited, c, 0, ask, func(field string) error { // path, attribute, value
		if at := fields / 3 % len(values); fields%3 == 2 {
			if values[at] = field; at == len(values)-1 {
				list = append(list, conversionOf(values))
			}
		}
		fields++
		return nil
	})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		notConverted(attributesName, errAttributesSlow.Error())
		return nil, nil
	}
	return list, err
}
