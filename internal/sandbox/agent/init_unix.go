//go:build unix

package agent

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Init is what the first process of a container has to be: it runs argv, passes
// SIGTERM and SIGINT on, reaps whatever its descendants leave behind, and returns
// the exit code of argv, 128 + n after signal n. A container's own init process
// would keep the environment that sandboxd takes such care to leave.
func Init(argv []string) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	child, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		for s := range signals {
			_ = syscall.Kill(child, s.(syscall.Signal))
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for processes: %w", err)
		case pid == child && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == child && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
