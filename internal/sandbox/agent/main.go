package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/lambae/lambae/internal/sandbox/wire"
)

// Exit codes of [Main].
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// maxBoot is more than a [wire.Boot] has.
const maxBoot = 64 << 10

// Main is a whole sandboxd process: it reads its [wire.Boot] from stdin and runs
// until it is not wanted any more. It returns the exit code.
func Main(stdin io.Reader, stderr io.Writer, environ []string) int {
	complain := func(code int, err error) int {
		fmt.Fprintln(stderr, "sandboxd:", err)
		return code
	}
	harden()
	var boot wire.Boot
	if err := json.NewDecoder(io.LimitReader(stdin, maxBoot)).Decode(&boot); err != nil || boot.URL == "" || boot.Sandbox == "" {
		return complain(exitUsage, errors.New("standard input must be the JSON that a lambae server starts sandboxd with; it is not started by hand"))
	}
	if boot.Lock != "" {
		lock, err := Lock(boot.Lock)
		if err != nil {
			return complain(exitFailed, err)
		}
		defer lock.Close()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if boot.MaxSeconds > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(boot.MaxSeconds)*time.Second)
		defer cancel()
		ctx = limited
	}
	a := New(Options{Boot: boot, Env: CommandEnv(environ), Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	switch err := a.Run(ctx); {
	case errors.Is(err, ErrUnwanted), ctx.Err() != nil:
		return exitDone
	default:
		return complain(exitFailed, err)
	}
}

// CommandEnv is the environment of commands: that of sandboxd without what is
// about the machine it runs on or the server it works for.
func CommandEnv(environ []string) (env []string) {
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !private(name) {
			env = append(env, v)
		}
	}
	return env
}

// private reports whether a variable is none of a command's business: how
// sandboxd was booted, and where the platform hands out metadata and credentials.
func private(name string) bool {
	for _, prefix := range []string{"LAMBAE_", "BAE_", "ECS_", "AWS_"} {
		if strings.HasPrefix(name, prefix) && name != Cookie {
			return true
		}
	}
	return false
}

// Cookie is the variable that marks all processes of a sandbox with its id, so
// that who clears away after a crash finds them. It is no secret.
const Cookie = "LAMBAE_SANDBOX"
