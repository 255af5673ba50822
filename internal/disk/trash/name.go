package trash

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"github.com/helmdeck/repos/internal/disk"
)

// entryPattern is <name>-b<bytes>-i<inodes>-<random>, or without the size.
var entryPattern = regexp.MustCompile(`^(?s:.+?)(?:-b([0-9a-z]{1,13})-i([0-9a-z]{1,13}))?-[0-9a-f]{16}$`)

// entryName names an entry so that its size survives a restart.
func entryName(name string, size *disk.Size) string {
	var unique [8]byte
	rand.Read(unique[:]) // never fails
	if size != nil {
		name += fmt.Sprintf("-b%s-i%s", strconv.FormatInt(max(size.Bytes, 0), 36), strconv.FormatInt(max(size.Inodes, 0), 36))
	}
	return name + "-" + hex.EncodeToString(unique[:])
}

// parseName reports whether entryName made the name, and returns its size, nil if it has
// none.
func parseName(entry string) (size *disk.Size, ours bool) {
	m := entryPattern.FindStringSubmatch(entry)
	if m == nil {
		return nil, false
	}
	bytes, errBytes := strconv.ParseInt(m[1], 36, 64)
	inodes, errInodes := strconv.ParseInt(m[2], 36, 64)
	if errBytes != nil || errInodes != nil {
		return nil, true
	}
	return &disk.Size{Bytes: bytes, Inodes: inodes}, true
}
