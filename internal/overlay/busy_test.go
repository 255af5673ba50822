package overlay

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// wantBusy asks once for true, and repeatedly for false, because a new mount namespace of
// another process has a copy of the mount until that unmounts it or ends.
func wantBusy(t *testing.T, s Spec, want bool) {
	t.Helper()
	scratch := filepath.Join(filepath.Dir(s.Upper), "scratch")
	got, err := Busy(s.Upper, scratch)
	for try := 0; err == nil && got && !want && try < 5*busyTries; try++ {
		time.Sleep(busyPause)
		got, err = Busy(s.Upper, scratch)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("busy is %v, want %v", got, want)
	}
}

// TestBusy asks twice before, during and after a mount, and checks that a kept upper still
// has what was written.
func TestBusy(t *testing.T) {
	for _, tt := range []struct {
		name               string
		volatile, metacopy bool
	}{
		{name: "plain"}, {name: "volatile", volatile: true}, {name: "metacopy", metacopy: true}, {name: "both", volatile: true, metacopy: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSpec(t)
			s.Volatile, s.Metacopy = tt.volatile, tt.metacopy
			wantBusy(t, s, false)
			wantBusy(t, s, false)
			for round := range 2 {
				mustMount(t, s)
				wantBusy(t, s, true)
				wantBusy(t, s, true)
				if round == 1 {
					if got := read(t, filepath.Join(s.Target, "kept")); got != "x" {
						t.Errorf("kept is %q", got)
					}
				}
				write(t, filepath.Join(s.Target, "kept"), "x")
				if err := os.Chmod(filepath.Join(s.Target, "file"), 0o600); err != nil {
					t.Fatal(err)
				}
				mustDetach(t, s.Target)
				wantBusy(t, s, false)
				wantBusy(t, s, false)
				if tt.volatile {
					// A volatile upper can be used once.
					return
				}
			}
		})
	}
}

// TestBusyAfterRename changes the lower layers below an upper, as for a kept workspace, and
// moves the whole workspace, as into the trash.
func TestBusyAfterRename(t *testing.T) {
	s := newSpec(t)
	mustMount(t, s)
	wantBusy(t, s, true)
	mustDetach(t, s.Target)
	wantBusy(t, s, false)
	dir := filepath.Dir(s.Upper)
	moved := filepath.Join(dir, "moved")
	mkdir(t, moved)
	for _, name := range []string{"upper", "work", "scratch"} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(moved, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.Upper, s.Work = filepath.Join(moved, "upper"), filepath.Join(moved, "work")
	wantBusy(t, s, false)
	more := filepath.Join(dir, "more")
	mkdir(t, more)
	s.Lower = append([]string{more}, s.Lower...)
	mustMount(t, s)
	wantBusy(t, s, true)
}

func TestBusyErrors(t *testing.T) {
	s := newSpec(t)
	dir := filepath.Dir(s.Upper)
	if _, err := Busy(filepath.Join(dir, "missing"), filepath.Join(dir, "scratch")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing upper: %v", err)
	}
	if _, err := Busy(s.Upper, filepath.Join(dir, "no", "scratch")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing parent of scratch: %v", err)
	}
	wantBusy(t, s, false)
}

// TestBusyAfterCopy: the attributes of an upper that was copied with them name the directories of the
// old place. Busy says nevertheless whether it is in use, and it can be mounted.
func TestBusyAfterCopy(t *testing.T) {
	s := newSpec(t)
	mustMount(t, s)
	write(t, filepath.Join(s.Target, "kept"), "x")
	wantBusy(t, s, true)
	mustDetach(t, s.Target)
	wantBusy(t, s, false)
	dir := filepath.Dir(s.Upper)
	for _, name := range []string{"upper", "work", "scratch"} {
		if out, err := exec.Command("cp", "-a", filepath.Join(dir, name), filepath.Join(dir, "copy of "+name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	s.Upper, s.Work = filepath.Join(dir, "copy of upper"), filepath.Join(dir, "copy of work")
	for _, scratch := range []string{"copy of scratch", "another scratch"} {
		ask := func(want bool) {
			t.Helper()
			if busy, err := Busy(s.Upper, filepath.Join(dir, scratch)); err != nil || busy != want {
				t.Errorf("%s: busy is %v, want %v; %v", scratch, busy, want, err)
			}
		}
		ask(false)
		mustMount(t, s)
		ask(true)
		if got := read(t, filepath.Join(s.Target, "kept")); got != "x" {
			t.Errorf("kept is %q", got)
		}
		mustDetach(t, s.Target)
		ask(false)
	}
}

// TestDetachWithHolder checks that an open descriptor still works after Detach, and keeps
// the upper busy.
func TestDetachWithHolder(t *testing.T) {
	s := newSpec(t)
	s.Volatile = true
	mustMount(t, s)
	f, err := os.Create(filepath.Join(s.Target, "held"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	release, err := Detach(s.Target)
	if err != nil {
		t.Fatal(err)
	}
	if points, err := Mounts(s.Target); err != nil || len(points) != 0 {
		t.Errorf("left: %v, %v", points, err)
	}
	if _, err := f.WriteString("on"); err != nil {
		t.Error(err)
	}
	if got := read(t, filepath.Join(s.Upper, "held")); got != "on" {
		t.Errorf("held is %q", got)
	}
	wantBusy(t, s, true)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// Detach holds a reference too.
	wantBusy(t, s, true)
	for range 2 {
		if err := release(); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	wantBusy(t, s, false)
}

func TestDetachErrors(t *testing.T) {
	s := newSpec(t)
	tests := []struct {
		name, target string
		want         error
	}{
		{"not mounted", s.Target, ErrNotMounted},
		{"missing", s.Target + "x", fs.ErrNotExist},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Detach(tt.target); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	// A link to a mount is not the mount.
	mustMount(t, s)
	link := s.Target + "-link"
	symlink(t, s.Target, link)
	if _, err := Detach(link); err == nil {
		t.Error("a link was followed")
	}
	wantBusy(t, s, true)
}

// TestBusyInAnotherNamespace has a copy of the mount in the mount namespace of a container,
// and none in ours.
func TestBusyInAnotherNamespace(t *testing.T) {
	s := newSpec(t)
	s.Volatile = true
	mustMount(t, s)
	cmd := exec.Command("unshare", "-m", "sh", "-c", "echo ready; read x; echo written >"+filepath.Join(s.Target, "late")+"; echo done; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	expect := func(want string) {
		t.Helper()
		if got, err := out.ReadString('\n'); got != want+"\n" {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	expect("ready")
	mustDetach(t, s.Target)
	wantBusy(t, s, true)
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	expect("done")
	if got := read(t, filepath.Join(s.Upper, "late")); got != "written\n" {
		t.Errorf("late is %q", got)
	}
	wantBusy(t, s, true)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Log(err)
	}
	// The kernel removes the namespace of a dead process a moment later.
	for {
		busy, err := Busy(s.Upper, filepath.Join(filepath.Dir(s.Upper), "scratch"))
		if err != nil {
			t.Fatal(err)
		}
		if !busy {
			return
		}
		runtime.Gosched()
	}
}
