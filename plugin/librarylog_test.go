package main

import (
	"bytes"
	"log"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLibraryLogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		library := log.New(&libraryLog{out: &out}, "", 0)
		for range 1000 {
			library.Print("unhandled frame")
		}
		if got := strings.Count(out.String(), "unhandled frame\n"); got != libraryLines || strings.Count(out.String(), "\n") != libraryLines {
			t.Errorf("%d lines:\n%s", got, out.String())
		}
		out.Reset()
		time.Sleep(libraryEvery)
		library.Print("something else")
		if got, want := out.String(), "980 more lines of libraries were left out\nsomething else\n"; got != want {
			t.Errorf("a minute later %q, want %q", got, want)
		}
	})
}
