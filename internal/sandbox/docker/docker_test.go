//go:build linux

// No engine is needed: the docker command is a stand-in that runs processes, see
// package dockertest. What an engine does differently is not tested here.
package docker_test

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/docker"
	"github.com/lambae/lambae/internal/sandbox/docker/dockertest"
)

const box = "sbx_0123456789abcdef0123456789abcdef"

func open(t testing.TB, e *dockertest.Engine) *docker.Driver {
	d := docker.New(&docker.Options{Command: e.Command, Env: e.Env, Runs: e.Root + "/runs.d"})
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func started(t testing.TB) (*docker.Driver, *dockertest.Engine) {
	e := dockertest.New(t)
	d := open(t, e)
	require.NoError(t, d.Ping(t.Context()))
	require.NoError(t, d.Start(t.Context(), sandbox.Spec{ID: box, Image: "img", Session: "ses_1"}))
	return d, e
}

func running(t *testing.T, d *docker.Driver) bool {
	t.Helper()
	r, err := d.Running(t.Context(), []string{box, "sbx_other"})
	require.NoError(t, err)
	require.NotContains(t, r, "sbx_other")
	return r[box]
}

func TestAContainerIsHardened(t *testing.T) {
	t.Parallel()
	_, e := started(t)
	args := e.Args(t)
	for _, want := range []string{"--security-opt=no-new-privileges", "--cap-drop=ALL", "--pids-limit=512", "--memory=2g", "--memory-swap=2g",
		"--cpus=2", "--rm", " img sleep infinity", "--label=lambae.sandbox=" + box, "--label=lambae.session=ses_1"} {
		require.Contains(t, args, want)
	}
	for _, never := range []string{"-v", "--volume", "--mount", "--privileged", "--env", "-e "} {
		require.NotContains(t, args, never)
	}
}

func TestCommandsRunInTheContainer(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	for command, want := range map[string]sandbox.Result{
		"echo out; echo err >&2":                 {Stdout: "out\n", Stderr: "err\n"},
		"echo no >&2; exit 3":                    {Stderr: "no\n", ExitCode: 3},
		"":                                       {},
		"exit 125":                               {ExitCode: 125},
		"exit 1":                                 {ExitCode: 1},
		"kill -9 $$":                             {ExitCode: 137},
		"head -c 70000 /dev/zero | tr '\\0' x":   {Stdout: strings.Repeat("x", sandbox.MaxOutput), Truncated: true},
		"echo 'No such container' >&2; exit 1":   {Stderr: "No such container\n", ExitCode: 1},
		"printf 'lambae:0 1\\n' >&2; printf a":   {Stdout: "a", Stderr: "lambae:0 1\n"},
		"printf '%s' \"it's \\\"$HOME\\\" `x`\"": {Stdout: `it's "/root" `, Stderr: "sh: 1: x: not found\n"},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			r, err := d.Exec(t.Context(), box, sandbox.Command{Command: command, Timeout: time.Minute})
			require.NoError(t, err)
			require.Equal(t, want, r)
		})
	}
}

func TestInputGoesToTheCommand(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	r, err := d.Exec(t.Context(), box, sandbox.Command{Command: "cat", Stdin: "it's\n$x", Timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "it's\n$x", r.Stdout)
}

func TestOutputComesWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	came := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = d.Exec(ctx, box, sandbox.Command{Command: "echo a; echo b >&2; sleep 60", Timeout: time.Minute, Output: func(stream, text string) { came <- stream + " " + text }})
	}()
	got := []string{<-came, <-came}
	cancel()
	require.ElementsMatch(t, []string{"stdout a\n", "stderr b\n"}, got)
}

// none waits until no process has the word in its arguments.
func none(t *testing.T, word string) {
	t.Helper()
	require.Eventually(t, func() bool {
		out, err := exec.Command("pgrep", "-f", word).Output()
		return err != nil && len(out) == 0
	}, 10*time.Second, 20*time.Millisecond, "a process runs on")
}

func TestATimeOutKillsWhatRunsInTheContainer(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	r, err := d.Exec(t.Context(), box, sandbox.Command{Command: "echo begun; sleep 7631 & sleep 7631", Timeout: 300 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, sandbox.Result{Stdout: "begun\n", ExitCode: 137, TimedOut: true}, r)
	none(t, "sleep 763[1]")
}

func TestACallerThatGoesAwayKillsItsCommand(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.Exec(ctx, box, sandbox.Command{Command: "echo; sleep 7632", Timeout: time.Minute, Output: func(string, string) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	none(t, "sleep 763[2]")
}

func TestALaunchedCommandOutlivesTheDriver(t *testing.T) {
	t.Parallel()
	d, e := started(t)
	c := sandbox.Command{ID: "sba_" + t.Name(), Command: "cat; sleep 0.5; echo err >&2; exit 7", Stdin: "the prompt\n", Timeout: time.Minute, Started: time.Now()}
	require.NoError(t, d.Launch(t.Context(), box, c))
	require.NoError(t, d.Launch(t.Context(), box, c), "launched again")
	require.NoError(t, d.Close())
	again := open(t, e)
	require.True(t, running(t, again))
	for range 2 { // what is over can be followed again
		r, err := again.Follow(t.Context(), box, c)
		require.NoError(t, err)
		require.Equal(t, sandbox.Result{Stdout: "the prompt\n", Stderr: "err\n", ExitCode: 7}, r)
	}
}

func TestALaunchedCommandIsKilledOnTimeAndOnDemand(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	slow := sandbox.Command{ID: "sba_slow" + t.Name(), Command: "sleep 7633", Timeout: time.Second, Started: time.Now()}
	long := sandbox.Command{ID: "sba_long" + t.Name(), Command: "sleep 7633", Timeout: time.Minute, Started: time.Now()}
	require.NoError(t, d.Launch(t.Context(), box, slow))
	require.NoError(t, d.Launch(t.Context(), box, long))
	r, err := d.Follow(t.Context(), box, slow)
	require.NoError(t, err)
	require.True(t, r.TimedOut)
	require.NoError(t, d.Kill(t.Context(), box, long.ID))
	require.NoError(t, d.Kill(t.Context(), box, long.ID))
	none(t, "sleep 763[3]")
	r, err = d.Follow(t.Context(), box, long)
	require.NoError(t, err)
	require.Equal(t, 137, r.ExitCode)
}

func TestMuchOutputOfALaunchedCommandIsCut(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	c := sandbox.Command{ID: "sba_big" + t.Name(), Command: "head -c 10485760 /dev/zero | tr '\\0' x; echo done >&2", Timeout: time.Minute, Started: time.Now()}
	require.NoError(t, d.Launch(t.Context(), box, c))
	r, err := d.Follow(t.Context(), box, c)
	require.NoError(t, err)
	require.Len(t, r.Stdout, sandbox.MaxOutput)
	require.Equal(t, "done\n", r.Stderr)
	require.True(t, r.Truncated)
	require.Zero(t, r.ExitCode)
}

func TestWhatWasNeverLaunchedIsSaidToBe(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	_, err := d.Follow(t.Context(), box, sandbox.Command{ID: "sba_never", Timeout: time.Minute})
	require.ErrorIs(t, err, sandbox.ErrNoCommand)
}

func TestAContainerThatEndedIsGone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*docker.Driver, *dockertest.Engine){
		"stopped": func(d *docker.Driver, _ *dockertest.Engine) { require.NoError(t, d.Stop(t.Context(), box)) },
		"killed":  func(_ *docker.Driver, e *dockertest.Engine) { e.Kill(t, "lambae-"+box) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, e := started(t)
			require.True(t, running(t, d))
			end(d, e)
			require.False(t, running(t, d))
			_, err := d.Exec(t.Context(), box, sandbox.Command{Command: "true", Timeout: time.Minute})
			require.ErrorIs(t, err, sandbox.ErrGone)
			_, err = d.Follow(t.Context(), box, sandbox.Command{ID: "sba_x", Timeout: time.Minute})
			require.ErrorIs(t, err, sandbox.ErrGone)
			require.NoError(t, d.Kill(t.Context(), box, "sba_x"))
			require.NoError(t, d.Stop(t.Context(), box), "stopping twice is no error")
		})
	}
}

func TestImagesAreLookedForAndPulled(t *testing.T) {
	t.Parallel()
	e := dockertest.New(t)
	d := open(t, e)
	names := []string{"img", "missing-1", "slow-1", "-v/:/x"}
	first := d.Images(t.Context(), names)
	require.Equal(t, sandbox.ImageStatus{Name: "img", Status: "available"}, first[0])
	require.Equal(t, "pending", first[2].Status)
	require.Equal(t, sandbox.ImageStatus{Name: "-v/:/x", Status: "error", Detail: `sandbox image "-v/:/x" error: not the name of an image`}, first[3])
	require.Eventually(t, func() bool {
		return d.Images(t.Context(), names)[1] == sandbox.ImageStatus{Name: "missing-1", Status: "error", Detail: `sandbox image "missing-1" error: pull access denied for missing-1`}
	}, 10*time.Second, 10*time.Millisecond)
	e.FinishPulls(t)
	require.Eventually(t, func() bool { return d.Images(t.Context(), names)[2].Status == "available" }, 10*time.Second, 10*time.Millisecond)
}

func TestAStartThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	t.Parallel()
	e := dockertest.New(t)
	d := open(t, e)
	for image, want := range map[string]string{
		"missing-1": `sandbox image "missing-1" error: pull access denied for missing-1`,
		"crash":     "failed to create task for container: crash",
		"-v/:/x":    `sandbox image "-v/:/x" error: not the name of an image`,
	} {
		require.EqualError(t, d.Start(t.Context(), sandbox.Spec{ID: box, Image: image}), want)
	}
	require.Empty(t, e.Containers())
}

func TestNoEngineIsAnError(t *testing.T) {
	t.Parallel()
	d := docker.New(&docker.Options{Command: "/nowhere/docker"})
	defer d.Close()
	require.Error(t, d.Ping(t.Context()))
	_, err := d.Running(t.Context(), []string{box})
	require.Error(t, err, "an engine that cannot be asked does not make a sandbox gone")
}

// Whatever model and prompt hold, they reach the command byte for byte.
func TestAnyTextArrivesUnchanged(t *testing.T) {
	t.Parallel()
	d, _ := started(t)
	text := rapid.StringOf(rapid.RuneFrom([]rune(`{}'"$\ab;|&<>é😀` + "\n\t*!`")))
	var once sync.Mutex
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		once.Lock()
		n++
		if n > 25 {
			once.Unlock()
			return // each needs several processes
		}
		once.Unlock()
		in, arg := text.Draw(rt, "stdin"), text.Draw(rt, "argument")
		quoted := "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		r, err := d.Exec(t.Context(), box, sandbox.Command{Command: "cat; printf '|%s' " + quoted, Stdin: in, Timeout: time.Minute})
		require.NoError(rt, err)
		require.Equal(rt, in+"|"+arg, r.Stdout)
	})
}

// The driver may cost no more than a fifth of what docker exec costs by itself.
func BenchmarkExecTrue(b *testing.B) {
	d, e := started(b)
	b.Run("driver", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Exec(b.Context(), box, sandbox.Command{Command: "true", Timeout: time.Minute}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command(e.Command, "exec", "-i", "lambae-"+box, "sh", "-c", "true")
			cmd.Env = e.Env
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
