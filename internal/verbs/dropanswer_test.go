package verbs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
)

// TestAnswerIsDropped checks that an answer is used for ten seconds, and that it does not stay in memory
// if nobody mounts the volume.
func TestAnswerIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &Volumes{Config: Config{Now: time.Now}}
		used, unused := &handle{rec: meta.Volume{CreatedAt: time.Now()}}, &handle{rec: meta.Volume{CreatedAt: time.Now()}}
		inMemory := func(h *handle) bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return h.answer != nil
		}
		v.keepAnswer(used, &remote.Answer{})
		v.keepAnswer(unused, &remote.Answer{})
		time.Sleep(answerFor - 1)
		if v.answerTo(used) == nil {
			t.Error("it is dropped too early")
		}
		time.Sleep(1 * time.Nanosecond)
		if v.answerTo(used) != nil || inMemory(used) {
			t.Error("it is still used")
		}
		time.Sleep(answerKept - answerFor)
		synctest.Wait()
		if inMemory(unused) {
			t.Error("it is still in memory")
		}
	})
}
