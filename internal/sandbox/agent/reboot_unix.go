//go:build unix

package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Reboot replaces this process by itself, with boot on standard input and without
// the environment variable that had it. It returns only with an error.
func Reboot(boot, variable string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start anew: %w", err)
	}
	if len(boot) > maxPipe {
		return fmt.Errorf("start anew: %s is longer than %d bytes", variable, maxPipe)
	}
	// A pipe takes this much without a reader.
	if _, err = w.WriteString(boot); err == nil {
		err = w.Close()
	}
	if err == nil {
		err = dup(int(r.Fd()), 0)
	}
	self, exeErr := os.Executable()
	if err == nil {
		err = exeErr
	}
	if err == nil {
		env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, variable+"=") })
		err = syscall.Exec(self, os.Args, env)
	}
	return fmt.Errorf("start anew: %w", err)
}

const maxPipe = 4096
