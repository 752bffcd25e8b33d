// Command benchcold builds functions as they are deployed and prints, for each,
// the size of its binary for arm64 and the median time from its start to its
// first request for an event, which is what the code has of a cold start.
//
//	benchcold client admin
package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const (
	runs = 10
	// Limits of a function; what is over them is marked and ends in exit code 1.
	maxSize  = 15 << 20
	maxStart = 80 * time.Millisecond
	waitMost = 30 * time.Second
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: benchcold FUNCTION...")
		os.Exit(2)
	}
	ok, err := bench(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "benchcold: %v\n", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

func bench(functions []string) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "benchcold-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ok = true
	fmt.Printf("%-12s %12s %14s\n", "function", "arm64 (MB)", "start (ms)")
	for _, name := range functions {
		deployed, err := build(dir, name, "linux", "arm64")
		if err != nil {
			return false, err
		}
		info, err := os.Stat(deployed)
		if err != nil {
			return false, err
		}
		native, err := build(dir, name, "", "")
		if err != nil {
			return false, err
		}
		start, err := median(native)
		if err != nil {
			return false, fmt.Errorf("start %s: %w", name, err)
		}
		mark := ""
		if info.Size() > maxSize || start > maxStart {
			mark, ok = "  too much", false
		}
		fmt.Printf("%-12s %12.1f %14.1f%s\n", name, float64(info.Size())/(1<<20), float64(start.Microseconds())/1000, mark)
	}
	return ok, nil
}

// build compiles a function; goos and goarch "" mean this machine.
func build(dir, name, goos, goarch string) (string, error) {
	bin := filepath.Join(dir, name+goarch)
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", bin, "./functions/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return bin, nil
}

func median(bin string) (time.Duration, error) {
	var times []time.Duration
	for range runs {
		t, err := start(bin)
		if err != nil {
			return 0, err
		}
		times = append(times, t)
	}
	slices.Sort(times)
	return (times[(runs-1)/2] + times[runs/2]) / 2, nil
}

// start runs a binary against a Runtime API that never has an event, until it
// asks for one.
func start(bin string) (took time.Duration, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	asked := make(chan time.Time, 1)
	done := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- time.Now():
		default:
		}
		<-done
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	defer func() { err = errors.Join(err, server.Close()) }()
	defer close(done)

	cmd := exec.Command(bin)
	cmd.Dir = filepath.Dir(bin)
	cmd.Stderr, cmd.Stdout = os.Stderr, os.Stderr
	cmd.Env = []string{
		"AWS_LAMBDA_RUNTIME_API=" + listener.Addr().String(), "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_LAMBDA_FUNCTION_NAME=bench",
		"BAE_STORE=dynamodb:lambae", "BAE_WEBSOCKET_ENDPOINT=https://gateway/v1",
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case t := <-asked:
		took = t.Sub(begin)
	case err := <-ended:
		return 0, fmt.Errorf("it ended before it asked for an event: %w", err)
	case <-time.After(waitMost):
		err = fmt.Errorf("it did not ask for an event within %v", waitMost)
	}
	_ = cmd.Process.Kill()
	<-ended
	return took, err
}
