package tree

import (
	"os/exec"
	"syscall"
)

// as makes a command run as uid, if that is not root.
func as(cmd *exec.Cmd, uid int) {
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
}
