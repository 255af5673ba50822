package changes

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// conversion is what git does to the content of a file before it stores it, as far as attributes say so.
type conversion struct {
	lfs, ident bool
	ends       ends
	withCRLF   bool // a checkout has the line ends that are converted as CRLF
	encoding   encoding
}

// changesText reports whether git may convert a file that it does not give to git-lfs.
func (c conversion) changesText() bool {
	return c.ident || c.ends != asTheyAre || c.encoding != utf8Bytes
}

// ends says which CRLFs of a file git stores as LF.
type ends uint8

const (
	asTheyAre ends = iota
	lineEnds
	auto // those of a text, unless the commit has some
)

// encoding is that of a file in the work tree.
type encoding uint8

const (
	utf8Bytes encoding = iota // git converts nothing
	utf16BOM                  // either byte order, with its mark
	utf16LE                   // without a mark
	utf16BE
	utf16LEBOM
	latin1
	otherEncoding // one that only git's iconv knows
)

// encodings are the values of working-tree-encoding that are converted here, in upper case. Of each, git's iconv knows
// all spellings that are here.
var encodings = map[string]encoding{
	"UTF-8": utf8Bytes, "UTF8": utf8Bytes, "UTF-16": utf16BOM, "UTF16": utf16BOM, "UTF-16LE": utf16LE, "UTF16LE": utf16LE,
	"UTF-16BE": utf16BE, "UTF16BE": utf16BE, "UTF-16LE-BOM": utf16LEBOM, "UTF16LE-BOM": utf16LEBOM,
	"ISO-8859-1": latin1, "ISO8859-1": latin1, "ISO_8859-1": latin1, "LATIN1": latin1, "LATIN-1": latin1,
}

// attributes are those that conversionOf gets the values of.
var attributes = [...]string{"filter", "ident", "text", "crlf", "eol", "working-tree-encoding"}

// isSet, isUnset and isUnspecified are what git prints for an attribute without a value.
const isSet, isUnset, isUnspecified = "set", "unset", "unspecified"

// conversionOf returns what attributes say, whose values are as git check-attr prints them. A filter other than git-lfs
// counts as none, as in a repository whose configuration does not define it.
func conversionOf(values [len(attributes)]string) (c conversion) {
	filter, ident, textValue, oldValue, eol, name := values[0], values[1], values[2], values[3], values[4], values[5]
	c.lfs = filter == "lfs"
	if name != isUnspecified && name != "" {
		var known bool
		if c.encoding, known = encodings[strings.ToUpper(name)]; !known {
			c.encoding = otherEncoding
		}
	}
	if c.lfs { // nothing else changes a pointer, and git fails to decode it
		if c.encoding != utf8Bytes {
			c.encoding = otherEncoding
		}
		return c
	}
	c.ident, c.withCRLF = ident == isSet, eol == "crlf"
	if textValue != isSet && textValue != isUnset && textValue != "auto" && textValue != "input" {
		textValue = oldValue // the name that it had before git 1.7.2
	}
	switch {
	case textValue == isUnset:
	case textValue == "auto":
		c.ends = auto
	case textValue == isSet, textValue == "input", eol == "crlf", eol == "lf":
		c.ends = lineEnds
	}
	return c
}

// cleanBefore returns what git has stored for a file that it checked out. ok is false if it is not in the encoding.
func (c conversion) cleanBefore(data []byte) (stored []byte, ok bool) {
	if data, ok = c.encoding.decode(data); !ok {
		return nil, false
	}
	// A checkout writes CRLF for all LFs or, if the commit has a CRLF and git guesses, for none.
	if c.withCRLF && (c.ends != auto || bytes.Count(data, lf) == bytes.Count(data, crlf)) {
		data = c.toLF(data)
	}
	return c.unexpand(data), true
}

// cleanAfter returns what git stores for a file, in place of before. ok is false if it is not in the encoding.
func (c conversion) cleanAfter(data, before []byte) (stored []byte, ok bool) {
	if data, ok = c.encoding.decode(data); !ok {
		return nil, false
	}
	if c.ends != auto || !bytes.Contains(before, crlf) || looksBinary(before) {
		data = c.toLF(data)
	}
	return c.unexpand(data), true
}

var crlf, lf = []byte("\r\n"), []byte("\n")

func (c conversion) toLF(data []byte) []byte {
	if bytes.Contains(data, crlf) && (c.ends == lineEnds || c.ends == auto && !looksBinary(data)) {
		return bytes.ReplaceAll(data, crlf, lf)
	}
	return data
}

func (c conversion) unexpand(data []byte) []byte {
	if !c.ident {
		return data
	}
	return expandedIdent.ReplaceAll(data, []byte("$$Id$$"))
}

// expandedIdent is what the attribute ident makes of $Id$ in a work tree.
var expandedIdent = regexp.MustCompile(`\$Id:[^$\n]*\$`)

// decode converts a content to UTF-8, as git does. ok is false if it is not in the encoding.
func (e encoding) decode(data []byte) (decoded []byte, ok bool) {
	if len(data) == 0 || e == utf8Bytes {
		return data, true
	}
	littleMark, bigMark := bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff})
	switch {
	case e == latin1:
		decoded = make([]byte, 0, len(data))
		for _, b := range data {
			decoded = utf8.AppendRune(decoded, rune(b))
		}
		return decoded, true
	case littleMark && (e == utf16BOM || e == utf16LEBOM):
		return decodeUTF16(data[2:], binary.LittleEndian)
	case bigMark && e == utf16BOM:
		return decodeUTF16(data[2:], binary.BigEndian)
	case e == utf16LE && !littleMark && !bigMark: // git refuses a mark here
		return decodeUTF16(data, binary.LittleEndian)
	case e == utf16BE && !littleMark && !bigMark:
		return decodeUTF16(data, binary.BigEndian)
	}
	return nil, false
}

func decodeUTF16(data []byte, order binary.ByteOrder) (decoded []byte, ok bool) {
	decoded = make([]byte, 0, len(data))
	for ; len(data) >= 2; data = data[2:] {
		r := rune(order.Uint16(data))
		if utf16.IsSurrogate(r) {
			if len(data) < 4 {
				return nil, false
			}
			if r = utf16.DecodeRune(r, rune(order.Uint16(data[2:]))); r == utf8.RuneError {
				return nil, false
			}
			data = data[2:]
		}
		decoded = utf8.AppendRune(decoded, r)
	}
	return decoded, len(data) == 0
}

// looksBinary reports whether git takes a file with text=auto for binary: it has a CR alone, a zero, or, for each 128
// other bytes, more than one that is not printed.
func looksBinary(data []byte) bool {
	data = bytes.TrimSuffix(data, []byte{0x1a}) // the end of a file of DOS
	printed, others := 0, 0
	for i, b := range data {
		switch {
		case b == 0 || b == '\r' && (i+1 == len(data) || data[i+1] != '\n'):
			return true
		case b == '\r' || b == '\n':
		case b == 0x7f || b < 0x20 && !strings.ContainsRune("\b\t\x1b\f", rune(b)):
			others++
		default:
			printed++
		}
	}
	return printed>>7 < others
}
