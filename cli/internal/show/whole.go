package show

import (
	"io"
	"unicode/utf8"
)

// WholeWriter writes whole characters to another writer, whatever parts it gets. Call Flush at the end.
type WholeWriter struct {
	w    io.Writer
	rest []byte // the beginning of a character
}

// Whole returns a WholeWriter.
func Whole(w io.Writer) *WholeWriter { return &WholeWriter{w: w} }

func (h *WholeWriter) Write(p []byte) (int, error) {
	data := append(h.rest, p...)
	end := len(data)
	for n := 1; n < utf8.UTFMax && n <= end; n++ {
		if utf8.RuneStart(data[end-n]) {
			if !utf8.FullRune(data[end-n:]) {
				end -= n
			}
			break
		}
	}
	_, err := h.w.Write(data[:end])
	h.rest = append([]byte(nil), data[end:]...)
	return len(p), err
}

// Flush writes what is left, which is no character.
func (h *WholeWriter) Flush() error {
	_, err := h.w.Write(h.rest)
	h.rest = nil
	return err
}
