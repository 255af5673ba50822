package csi

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestParsePublish checks what a caller of another version sends.
func TestParsePublish(t *testing.T) {
	mode := message{}.number(1, 3).number(9, 1) // MULTI_NODE_READER_ONLY, and an unknown field
	unknown := protowire.AppendFixed64(protowire.AppendTag(nil, 77, protowire.Fixed64Type), 1)
	m := append(message{}.text(1, "v").message(5, message{}.message(2, nil).message(3, mode)), unknown...)
	r, err := parsePublish(m)
	if err != nil || r.volume != "v" || !r.capability.given || !r.capability.mount || !r.capability.readOnly {
		t.Errorf("%+v, %v", r, err)
	}
	for name, m := range map[string]message{
		"half a field": {0x0a, 5, 'x'}, "a key of a map that is no text": message{}.message(8, message{}.text(1, "\xff").text(2, "x")),
		"a value of a map that is no text": message{}.message(7, message{}.text(1, "x").text(2, "\xff")), "no tag": {0xff},
	} {
		if _, err := parsePublish(m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
