package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/lambae/lambae/internal/sandbox/agent"
)

// maxSweeps bounds the hunt for children of children.
const maxSweeps = 100

// sweep kills what a sandboxd that was killed left behind. The processes are told
// by the mark in their environment, not by number, which may be another's by now.
func sweep(id string) {
	mark := []byte(agent.Cookie + "=" + id + "\x00")
	for tries, found := 0, true; found && tries < maxSweeps; tries++ {
		found = false
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range files {
			env, err := os.ReadFile(f)
			if err != nil || !bytes.Contains(append(env, 0), mark) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && pid != os.Getpid() && syscall.Kill(pid, syscall.SIGKILL) == nil {
				found = true // it may have had children that were not seen
			}
		}
	}
}
