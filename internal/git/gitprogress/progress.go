// Package gitprogress reads how far a fetch is from the lines that git prints to people.
//
// The remote writes some of the lines, which begin with "remote: ". A Progress of those is for people too: nothing may
// depend on it.
package gitprogress

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Progress is the progress of a fetch, as git prints it.
type Progress struct {
	Phase   string // such as "Receiving objects"
	Percent int    // of the phase's objects; -1 if git prints none
	// Objects of Total are done; zero if git prints none.
	Objects, Total int64
	Amount         string // received or sent so far, such as "1.20 GiB"; may be empty
	Rate           string // such as "3.50 MiB/s"; may be empty
}

func (p Progress) String() string {
	if p.Phase == "" {
		return "starting"
	}
	s := strings.ToLower(p.Phase)
	if p.Percent >= 0 {
		s += fmt.Sprintf(" %d%%", p.Percent)
	}
	switch {
	case p.Amount != "" && p.Rate != "":
		s += fmt.Sprintf(" (%s, %s)", p.Amount, p.Rate)
	case p.Amount != "":
		s += fmt.Sprintf(" (%s)", p.Amount)
	}
	return s
}

// Receiving objects:  43% (430/1000), 1.20 MiB | 3.00 MiB/s
// remote: Counting objects: 12, done.
var progressLine = regexp.MustCompile(
	`^(?:remote: )?([A-Z][a-z]+(?: [a-z]+)*): +(?:(\d+)% \((\d+)/(\d+)\)|\d+)(?:, ([\d.]+ (?:bytes|[KMGT]iB))(?: \| ([\d.]+ (?:bytes|[KMGT]iB)/s))?)?`)

// Parse parses one line of git's stderr.
func Parse(line string) (Progress, bool) {
	m := progressLine.FindStringSubmatch(line)
	if m == nil {
		return Progress{}, false
	}
	p := Progress{Phase: m[1], Percent: -1, Amount: m[5], Rate: m[6]}
	if m[2] != "" {
		p.Percent, _ = strconv.Atoi(m[2])
		p.Objects, _ = strconv.ParseInt(m[3], 10, 64)
		p.Total, _ = strconv.ParseInt(m[4], 10, 64)
	}
	return p, true
}

// units are those of git's amounts.
var units = map[string]float64{"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// Bytes returns how many bytes Amount is, as exactly as it says; 0 if it is empty.
func (p Progress) Bytes() int64 {
	number, unit, _ := strings.Cut(p.Amount, " ")
	n, err := strconv.ParseFloat(number, 64)
	if n *= units[unit]; err != nil || n >= 1<<62 {
		return 0
	}
	return int64(n)
}
