package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Restrict makes all processes of the group of a command that Run started, and those that they start
// from now on, use n of this process's processors, numbered from 0, from first on, and gives those that
// compute in several threads a nice value that exceeds this process's by nice, unless theirs is higher.
// It is not an error if they have ended, or if the kernel refuses: then they share the processors by
// priority alone.
func Restrict(cmd *exec.Cmd, first, n, nice int) {
	var own, set unix.CPUSet
	if unix.SchedGetaffinity(0, &own) != nil {
		return
	}
	for cpu, i := 0, 0; i < first+n && cpu < len(own)*wordBits; cpu++ {
		if own.IsSet(cpu) {
			if i >= first {
				set.Set(cpu)
			}
			i++
		}
	}
	asOwner(cmd, nice, func(group, nice int) { restrictGroup(group, &set, nice) })
}

// nicer gives all threads of the group of a command that Run started a nice value that exceeds this
// process's by nice, unless theirs is higher. It is not an error if they have ended.
func nicer(cmd *exec.Cmd, nice int) {
	asOwner(cmd, nice, func(group, nice int) { _ = unix.Setpriority(unix.PRIO_PGRP, group, nice) })
}

// asOwner calls f as the user of a command that Run started, unless it has ended, with its process group
// and the nice value that exceeds this process's by nice.
func asOwner(cmd *exec.Cmd, nice int, f func(group, nice int)) {
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	if err != nil || !Signal(cmd, 0) {
		return
	}
	nice += 20 - prio // the system call returns 20 minus nice
	done := make(chan struct{})
	onThread(func() {
		defer close(done)
		// A thread may do this to processes of its own effective uid. The plugin has no CAP_SYS_NICE.
		const same = ^uintptr(0)
		uid := uintptr(cmd.SysProcAttr.Credential.Uid)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uid, same); errno == 0 {
			f(cmd.Process.Pid, nice)
		}
	})
	<-done
}

// wordBits is the number of processors in each word of a unix.CPUSet.
const wordBits = strconv.IntSize

// manyTasks is how many tasks a process has that computes in several threads: these, and the one that
// waits for them. A git that receives a pack has a second one, which reads from the remote.
const manyTasks = 3

// restrictGroup sets the processors of all threads of a process group, and raises the nice values of
// those of processes with manyTasks. Others keep theirs, because nobody may lower it again.
func restrictGroup(group int, set *unix.CPUSet, nice int) {
	for _, pid := range numbers("/proc") {
		if of, err := syscall.Getpgid(pid); err != nil || of != group {
			continue
		}
		tasks := fmt.Sprintf("/proc/%d/task", pid)
		// git starts threads from the first one, and they inherit what it has: so it comes before
		// the others are listed.
		_ = unix.SchedSetaffinity(pid, set)
		many := len(numbers(tasks)) >= manyTasks
		if many {
			_ = unix.Setpriority(unix.PRIO_PROCESS, pid, nice) // the kernel refuses to lower one
		}
		for _, tid := range numbers(tasks) {
			_ = unix.SchedSetaffinity(tid, set)
			if many {
				_ = unix.Setpriority(unix.PRIO_PROCESS, tid, nice)
			}
		}
	}
}

// numbers returns the names in a directory that are numbers.
func numbers(dir string) (list []int) {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			list = append(list, n)
		}
	}
	return list
}
