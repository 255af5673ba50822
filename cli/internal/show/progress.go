package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/docker/cli/cli/streams"
	"github.com/mattn/go-runewidth"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client/pkg/jsonmessage"

	"github.com/helmdeck/repos/api"
)

// Progress shows a long operation: as one line that changes with a bar as that of docker pull on a
// terminal, and elsewhere as a line for each status. It is not safe for concurrent use.
type Progress struct {
	out    *streams.Out
	status string
	drawn  bool
}

// NewProgress returns a Progress on out.
func NewProgress(out *streams.Out) *Progress { return &Progress{out: out} }

const (
	lineStart = "\r"
	eraseLine = "\x1b[2K"
)

// Update shows p.
func (s *Progress) Update(p api.Progress) {
	if !s.out.IsTerminal() {
		if p.Status != s.status {
			fmt.Fprintln(s.out, Text(p.Status))
		}
		s.status = p.Status
		return
	}
	_, width := s.out.GetTtySize()
	s.drawn = true
	io.WriteString(s.out, lineStart+eraseLine+line(p, int(width)))
}

// Done ends the line that changes.
func (s *Progress) Done() {
	if s.drawn {
		io.WriteString(s.out, lineStart+eraseLine)
	}
	s.drawn = false
}

// line returns p in one line of a terminal. A width of 0 is unknown.
func line(p api.Progress, width int) string {
	if width <= 0 {
		width = 80
	}
	counted := jsonstream.Progress{Current: p.Current, Total: p.Total}
	if p.Unit != "bytes" {
		counted.Units = Text(p.Unit)
	}
	bar := strings.TrimSpace(jsonmessage.RenderTUIProgress(counted, uint16(min(width, 1<<15))))
	// A character in the last column makes some terminals wrap.
	room := width - 1
	if bar != "" {
		bar = runewidth.Truncate(bar, room, "")
		room -= runewidth.StringWidth(bar) + 1
	}
	if room < 1 {
		return bar
	}
	return strings.TrimSpace(runewidth.Truncate(Text(p.Status), room, "…") + " " + bar)
}
