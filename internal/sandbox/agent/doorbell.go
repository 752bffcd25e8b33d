package agent

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// listen keeps the doorbell connected. While it is not, orders are looked for
// again and again.
func (a *Agent) listen(ctx context.Context, doorbell string) {
	if strings.HasPrefix(doorbell, "/") {
		doorbell = strings.TrimSuffix(a.o.Boot.URL, "/") + doorbell
	}
	for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 10*time.Second) {
		began := time.Now()
		if err := a.hear(ctx, doorbell); ctx.Err() == nil {
			a.o.Logger.Debug("doorbell not connected, trying again", "error", err)
		}
		a.setBell(false)
		a.ring() // something may have been ordered meanwhile
		if time.Since(began) > 10*time.Second {
			wait = 50 * time.Millisecond
		}
		_ = pause(ctx, jitter(wait))
	}
}

// pingEvery finds out that a doorbell is dead although nothing says so.
const pingEvery = 30 * time.Second

// hear listens on one connection until it ends.
func (a *Agent) hear(ctx context.Context, doorbell string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dial, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	c, _, err := websocket.Dial(dial, doorbell, &websocket.DialOptions{HTTPClient: a.o.Client, HTTPHeader: http.Header{"Authorization": {"Bearer " + a.token}}})
	if err != nil {
		return err
	}
	defer c.CloseNow()
	a.setBell(true)
	a.ring()
	go func() {
		for pause(ctx, pingEvery) == nil {
			ping, done := context.WithTimeout(ctx, 10*time.Second)
			err := c.Ping(ping)
			done()
			if err != nil {
				cancel()
				return
			}
		}
	}()
	for {
		if _, _, err := c.Read(ctx); err != nil {
			return err
		}
		a.ring()
	}
}
