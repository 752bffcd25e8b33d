package dev_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

// sharedPair starts two servers on one DynamoDB table.
func sharedPair(t *testing.T, model *modeltest.Server) (one, two *process) {
	endpoint := ministack.Endpoint(t)
	name := ministack.TableName()
	require.NoError(t, dynamo.CreateTable(context.Background(), ministack.Client(endpoint), name))
	env := []string{"BAE_STORE=dynamodb:" + name, "AWS_ENDPOINT_URL=" + endpoint, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test"}
	one, two = newProcess(t, model.URL, env...), newProcess(t, model.URL, env...)
	one.start()
	key, err := os.ReadFile(filepath.Join(one.dir, "admin.key"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(two.dir, "admin.key"), key, 0o600))
	two.start()
	return one, two
}

func TestTwoServersOnOneTableKeepOneQueue(t *testing.T) {
	t.Parallel()
	model := modeltest.New(t)
	one, two := sharedPair(t, model)
	s := one.open()
	var wg sync.WaitGroup
	held := modeltest.Script(modeltest.Step{Wait: "go", Text: "first"})
	wg.Add(1)
	go func() {
		defer wg.Done()
		_, err := one.send(s, held)
		require.NoError(t, err)
	}()
	require.Eventually(t, func() bool { return len(model.Requests()) == 1 }, 20*time.Second, 5*time.Millisecond)
	for i := range 6 {
		wg.Add(1)
		p := []*process{two, one}[i%2]
		go func() {
			defer wg.Done()
			_, err := p.send(s, fmt.Sprintf("waiter %d", i))
			require.NoError(t, err)
		}()
		time.Sleep(500 * time.Millisecond) // arrivals of two processes have no order but time
	}
	model.Open("go")
	wg.Wait()
	var said []string
	for _, e := range two.events(s) {
		if text := ""; e.Type == "client.message.send" && json.Unmarshal(e.Payload.Content, &text) == nil && strings.HasPrefix(text, "waiter") {
			said = append(said, text)
		}
	}
	require.Equal(t, []string{"waiter 0", "waiter 1", "waiter 2", "waiter 3", "waiter 4", "waiter 5"}, said)
}

// A server that stands still past its lease loses its turn to the other one, and
// writes nothing when it wakes.
func TestAStoppedServerIsTakenOverFrom(t *testing.T) {
	t.Parallel()
	model := modeltest.New(t)
	one, two := sharedPair(t, model)
	s := one.open()
	stalled := make(chan error, 1)
	go func() {
		_, err := one.send(s, modeltest.Script(modeltest.Step{Wait: "go", Text: "from the dead"}))
		stalled <- err
	}()
	require.Eventually(t, func() bool { return len(model.Requests()) == 1 }, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, one.cmd.Process.Signal(syscall.SIGSTOP))
	ids, err := two.send(s, "I take over")
	require.NoError(t, err)
	require.NotEmpty(t, ids)
	before := two.events(s)
	require.NoError(t, one.cmd.Process.Signal(syscall.SIGCONT))
	model.Open("go")
	err = <-stalled
	require.ErrorContains(t, err, "the call failed")
	require.ErrorContains(t, err, "taken over")
	require.Equal(t, before, two.events(s), "nothing was written after the take-over")
	_, err = one.send(s, "back in the queue")
	require.NoError(t, err)
	for _, e := range one.events(s) {
		if e.Type == "server.message.send" {
			require.NotContains(t, string(e.Payload.Content), `"text":"from the dead"`, "the lost answer is nowhere")
		}
	}
}
