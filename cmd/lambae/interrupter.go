package main

import (
	"context"
	"os"
	"sync"
	"syscall"
)

// interrupter decides what Ctrl-C ends: the wait for an answer if there is one,
// else everything. Asked twice in one wait, it ends everything too.
type interrupter struct {
	quit context.CancelFunc

	mu   sync.Mutex
	wait context.CancelFunc // nil when there is nothing to wait for
}

// watch passes signals on until ctx ends.
func (i *interrupter) watch(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case signal := <-signals:
			i.interrupt(signal)
		case <-ctx.Done():
			return
		}
	}
}

func (i *interrupter) interrupt(signal os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.wait == nil || signal == syscall.SIGTERM {
		i.quit()
		return
	}
	i.wait()
	i.wait = nil
}

// waiting gives the context of a wait; done ends it.
func (i *interrupter) waiting(ctx context.Context) (wait context.Context, done func()) {
	wait, cancel := context.WithCancel(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wait = cancel
	return wait, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.wait = nil
		cancel()
	}
}
