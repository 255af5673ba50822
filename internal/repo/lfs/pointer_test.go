package lfs

import (
	"strings"
	"testing"
)

func TestParsePointer(t *testing.T) {
	oid := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct {
		text string
		want Pointer
		ok   bool
	}{
		{"version https://git-lfs.github.com/spec/v1\noid sha256:" + oid + "\nsize 12\n", Pointer{OID: oid, Size: 12}, true},
		{"version https://hawser.github.com/spec/v1\noid sha256:" + oid + "\nsize 0\n", Pointer{OID: oid}, true},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:" + oid + "\nsize 12", Pointer{OID: oid, Size: 12}, true},
		{"version https://git-lfs.github.com/spec/v1\nsize 12\noid sha256:" + oid + "\n", Pointer{}, false},
		{"version https://git-lfs.github.com/spec/v1\next-0-x sha256:" + oid + "\noid sha256:" + oid + "\nsize 12\n", Pointer{}, false},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:" + oid + "\nsize -1\n", Pointer{}, false},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:" + oid + "\nsize 99999999999999999999\n", Pointer{}, false},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:../" + oid[3:] + "\nsize 1\n", Pointer{}, false},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.ToUpper(oid) + "\nsize 1\n", Pointer{}, false},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:" + oid[:40] + "\nsize 1\n", Pointer{}, false},
		{"version https://git-lfs.github.com/spec/v2\noid sha256:" + oid + "\nsize 1\n", Pointer{}, false},
		{"", Pointer{}, false},
	} {
		if got, ok := Parse([]byte(tt.text)); got != tt.want || ok != tt.ok {
			t.Errorf("Parse(%q) = %+v, %v, want %+v, %v", tt.text, got, ok, tt.want, tt.ok)
		}
	}
}
