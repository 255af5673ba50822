package short

import (
	"fmt"
	"testing"
)

func TestChosen(t *testing.T) {
	for _, n := range []int{1, 4, 20} {
		got := 0
		for i := range 10000 {
			if chosen(fmt.Sprintf("TestX/case_%d", i), n) {
				got++
			}
		}
		if want := 10000 / n; got < want*8/10 || got > want*12/10 {
			t.Errorf("%d of 10000 cases are chosen, want about one in %d", got, n)
		}
	}
}
