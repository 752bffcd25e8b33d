//go:build unix

package claude

import (
	"os"
	"syscall"
)

// lockFile keeps other processes from appending until f is closed.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			return err
		}
	}
}
