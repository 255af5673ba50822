package volume

import (
	"strconv"
	"strings"
)

// An empty workspace takes less than minSize bytes and minInodes files and directories.
const (
	minSize       = 1 << 20
	minInodes     = 100
	maxSize       = 1 << 60
	allowedSize   = "a size of at least 1m, such as 2g, with k, m, g or t"
	allowedInodes = "a number of at least 100"
)

// units are the units of sizes in bits, the largest first.
var units = []struct {
	name string
	bits int
}{{"t", 40}, {"g", 30}, {"m", 20}, {"k", 10}, {"b", 0}}

// ParseSize reads a number of bytes such as 20GiB, 20g, 1.5TiB, 512B or 0. The units are powers of 1024, in upper or
// lower case. Only 0 needs none. The error is strconv.ErrSyntax or strconv.ErrRange.
func ParseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "BKMGTibkmgt")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.Trim(number, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	unit := strings.ToLower(text[len(number):])
	if unit == "" && n == 0 {
		return 0, nil
	}
	for _, u := range units {
		if unit != u.name && (unit != u.name+"ib" || u.bits == 0) {
			continue
		}
		if n *= float64(int64(1) << u.bits); n > maxSize {
			return 0, strconv.ErrRange
		}
		return int64(n), nil
	}
	return 0, strconv.ErrSyntax
}

// ParseLimit reads a limit of bytes. An empty text is none.
func ParseLimit(text string) (n int64, problem string) {
	if text == "" {
		return 0, ""
	}
	n, err := ParseSize(text)
	switch {
	case err != nil:
		return 0, "is not a size"
	case n < minSize:
		return 0, "is too small"
	}
	return n, ""
}

// FormatSize returns the shortest text that ParseLimit reads as n, such as 2g; empty for 0.
func FormatSize(n int64) string {
	for _, u := range units {
		if n > 0 && n%(1<<u.bits) == 0 {
			return strconv.FormatInt(n>>u.bits, 10) + u.name
		}
	}
	return ""
}

// ParseInodes reads a limit of files and directories. An empty text is none.
func ParseInodes(text string) (n int64, problem string) {
	if text == "" {
		return 0, ""
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < 0:
		return 0, "is not a valid number"
	case n < minInodes:
		return 0, "is too small"
	}
	return n, ""
}

func formatInodes(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
