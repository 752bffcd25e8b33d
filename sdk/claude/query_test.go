package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// Spec: Query
func TestQueryWithTextEndsAfterItsResult(t *testing.T) {
	t.Parallel()
	st := Query(t.Context(), Text("hello"), childOptions(t, "echo"))
	all := collect(t, st)
	require.Len(t, all, 2)
	require.Equal(t, "echo: hello", all[0].(*AssistantMessage).Text())
	result := all[1].(*ResultMessage)
	require.Equal(t, "done: hello", result.Result)
	require.Equal(t, "s", result.SessionID)
	require.Equal(t, ResultSuccess, result.Subtype)
	_, err := st.Next()
	require.Error(t, err)
}

// Spec: Query
func TestQueryWithSequenceAnswersEveryMessage(t *testing.T) {
	t.Parallel()
	seq := func(yield func(UserMessage) bool) {
		for _, m := range []UserMessage{UserText("one"), {Content: "quiet", AppendOnly: true}, UserText("two")} {
			if !yield(m) {
				return
			}
		}
	}
	var results []string
	for _, m := range collect(t, Query(t.Context(), Sequence(seq), childOptions(t, "echo"))) {
		if r, ok := m.(*ResultMessage); ok {
			results = append(results, r.Result)
		}
	}
	require.Equal(t, []string{"done: one", "done: two"}, results)
}

// Spec: Query
func TestConversationTakesMessagesTurnByTurn(t *testing.T) {
	t.Parallel()
	st := Query(t.Context(), Conversation(UserText("0")), childOptions(t, "echo"))
	defer st.Close()
	for i := range 3 {
		if i > 0 {
			require.NoError(t, st.Send(t.Context(), UserText(strconv.Itoa(i))))
		}
		var last Message
		for m, err := range st.Turn() {
			require.NoError(t, err)
			last = m
		}
		require.Equal(t, "done: "+strconv.Itoa(i), last.(*ResultMessage).Result)
	}
	require.NoError(t, st.CloseInput())
	require.Empty(t, collect(t, st))
	require.ErrorIs(t, st.Send(t.Context(), UserText("late")), ErrInputClosed)
}

// Spec: wire
func TestUnknownMessagesAndNoiseAreNoErrors(t *testing.T) {
	t.Parallel()
	all := collect(t, Query(t.Context(), Text("go"), childOptions(t, "noise")))
	require.Len(t, all, 3)
	require.Equal(t, "brand_new", all[0].MessageType())
	require.IsType(t, &OtherMessage{}, all[0])
	require.Equal(t, int64(3), gjson.GetBytes(all[0].RawJSON(), "payload.deep.2").Int())
	require.True(t, gjson.GetBytes(all[1].RawJSON(), "novel").Bool())
	require.Equal(t, "plain", all[1].(*AssistantMessage).Text())
}

// Spec: wire
func TestLinesOfManyMegabytesArrive(t *testing.T) {
	t.Parallel()
	size := MaxLineBytes - 1000
	all := collect(t, Query(t.Context(), Text("go"), childOptions(t, "long", fmt.Sprint("CHILD_SIZE=", size))))
	require.Greater(t, len(all[0].RawJSON()), size)
	require.True(t, bytes.HasSuffix(all[0].RawJSON(), []byte(`x"}}`)))
}

// Spec: wire
func TestLineBeyondTheLimitIsAnError(t *testing.T) {
	t.Parallel()
	st := Query(t.Context(), Text("go"), childOptions(t, "long", fmt.Sprint("CHILD_SIZE=", MaxLineBytes+1)))
	_, err := st.Result()
	require.ErrorIs(t, err, ErrLineTooLong)
	<-st.Done()
}

// Spec: a child that exits non-zero
func TestFailingChildIsAnErrorWithCodeAndStderr(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := 0
	opts := childOptions(t, "exit")
	opts.Stderr = func(chunk []byte) { mu.Lock(); seen += len(chunk); mu.Unlock() }
	st := Query(t.Context(), Text("go"), opts)
	m, err := st.Next()
	require.NoError(t, err)
	require.Equal(t, "last words", m.(*AssistantMessage).Text())
	_, err = st.Next()
	var exit *ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.Code)
	require.Len(t, exit.Stderr, 64<<10)
	require.True(t, strings.HasSuffix(exit.Stderr, "it broke\n"))
	require.EqualError(t, err, "claude exited with code 7: it broke")
	<-st.Done()
	require.Greater(t, seen, 100<<10)
}

// Spec: options; EphemeralSession with a store
func TestStartFailuresEndTheStream(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		part   string
		want   string
	}{
		"child dies at once":       {part: "dead", want: "claude exited with code 3: cannot start"},
		"child ends well at once":  {part: "silent", want: "claude has ended; set Options.Stderr"},
		"handshake is refused":     {part: "refuse", want: "initialize claude: claude refused initialize: bad options"},
		"no executable":            {part: "echo", change: func(o *Options) { o.Executable = "/nowhere/claude" }, want: "executable not found"},
		"no working directory":     {part: "echo", change: func(o *Options) { o.Dir = "/nowhere/at/all" }, want: "working directory"},
		"store without persisting": {part: "echo", change: func(o *Options) { o.SessionStore = &InMemoryStore{}; o.EphemeralSession = true }, want: "CLAUDE_CONFIG_DIR"},
		"bypass without consent":   {part: "echo", change: func(o *Options) { o.PermissionMode = PermissionBypass }, want: "AllowBypassPermissions"},
		"two permission prompts": {part: "echo", change: func(o *Options) {
			o.PermissionPromptTool = "mcp__a__b"
			o.CanUseTool = func(context.Context, PermissionRequest) (PermissionResult, error) { return Allow(), nil }
		}, want: "set one of them"},
		"resume and continue":    {part: "echo", change: func(o *Options) { o.Resume = "x"; o.Continue = true }, want: "Resume and Continue"},
		"session id and resume":  {part: "echo", change: func(o *Options) { o.Resume = "x"; o.SessionID = "y" }, want: "ForkSession"},
		"dialogs without dialog": {part: "echo", change: func(o *Options) { o.DialogKinds = []string{"k"} }, want: "Options.Dialog"},
		"sandbox and a settings file": {part: "echo", change: func(o *Options) {
			o.Settings = "/settings.json"
			o.Sandbox = map[string]any{"enabled": true}
		}, want: "cannot be combined with a settings file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := childOptions(t, tc.part)
			if tc.change != nil {
				tc.change(opts)
			}
			cleaned := 0
			opts.Cleanup = func() { cleaned++ }
			st := Query(t.Context(), Text("go"), opts)
			_, err := st.Result()
			require.ErrorContains(t, err, tc.want)
			<-st.Done()
			require.Equal(t, 1, cleaned)
			require.Error(t, st.SetModel(t.Context(), "m"))
		})
	}
}

// Spec: initialize
func TestAnswerJustBeforeTheEndCounts(t *testing.T) {
	t.Parallel()
	st := Query(t.Context(), Conversation(), childOptions(t, "brief"))
	require.Empty(t, collect(t, st))
	init, err := st.Initialization(t.Context())
	require.NoError(t, err)
	require.Equal(t, "mock", init.Models[0].Value)
}

// Spec: cancellation
func TestCancellationEndsTheQueryWithErrAborted(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user left")
	for name, part := range map[string]string{"before the handshake": "mute", "between turns": "echo"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			st := Query(ctx, Conversation(), childOptions(t, part))
			time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
			_, err := st.Next()
			require.ErrorIs(t, err, ErrAborted)
			require.ErrorIs(t, err, cause)
			<-st.Done()
		})
	}
	t.Run("before the start", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		st := Query(ctx, Text("x"), childOptions(t, "echo"))
		_, err := st.Next()
		require.ErrorIs(t, err, ErrAborted)
		require.ErrorIs(t, err, context.Canceled)
		<-st.Done()
	})
}

// Every way out of a stream must end the whole process group, even one that
// ignores SIGTERM and has a grandchild that holds the pipes.
//
// Spec: Close; nothing is left behind
func TestEveryWayOutEndsTheProcessGroup(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, st *Stream, cancel func()){
		"close":  func(t *testing.T, st *Stream, _ func()) { st.Close() },
		"cancel": func(t *testing.T, _ *Stream, cancel func()) { cancel() },
		"leaving the loop": func(t *testing.T, st *Stream, _ func()) {
			st.s.queue.push(&OtherMessage{})
			for range st.Messages() {
				break
			}
		},
		"panic in the loop": func(t *testing.T, st *Stream, _ func()) {
			st.s.queue.push(&OtherMessage{})
			require.Panics(t, func() {
				defer st.Close()
				for range st.Messages() {
					panic("oh")
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			st := Query(ctx, Conversation(UserText("go")), childOptions(t, "stubborn"))
			m, err := st.Next()
			require.NoError(t, err)
			pids := strings.Fields(m.(*ResultMessage).Result)
			began := time.Now()
			leave(t, st, cancel)
			require.Less(t, time.Since(began), 2500*time.Millisecond, "leaving took too long")
			for _, pid := range pids {
				n, err := strconv.Atoi(pid)
				require.NoError(t, err)
				requireGone(t, n)
			}
			<-st.Done()
		})
	}
}

// Spec: nothing is left behind
func TestForgottenStreamIsEnded(t *testing.T) {
	t.Parallel()
	done := func() <-chan struct{} {
		st := Query(t.Context(), Conversation(UserText("x")), childOptions(t, "echo"))
		_, err := st.Next()
		require.NoError(t, err)
		return st.Done()
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}, 10*time.Second, 20*time.Millisecond)
}

// Spec: nothing is left behind
func TestGrandchildThatHoldsThePipesDoesNotHoldTheStream(t *testing.T) {
	t.Parallel()
	all := collect(t, Query(t.Context(), Text("go"), childOptions(t, "litter")))
	pid, err := strconv.Atoi(all[0].(*ResultMessage).Result)
	require.NoError(t, err)
	requireGone(t, pid)
}

// Spec: initialize; interrupt; set_model; set_permission_mode
func TestControlRequestsReachClaude(t *testing.T) {
	t.Parallel()
	st := Query(t.Context(), Conversation(), childOptions(t, "echo"))
	defer func() { st.Close(); <-st.Done() }()
	ctx := t.Context()
	mode, err := st.SetPermissionMode(ctx, PermissionPlan)
	require.NoError(t, err)
	require.Equal(t, PermissionPlan, mode)
	require.NoError(t, st.SetModel(ctx, "opus"))
	_, err = st.Interrupt(ctx)
	require.NoError(t, err)
	answer, err := st.Control(ctx, map[string]any{"subtype": "anything", "x": 1})
	require.NoError(t, err)
	require.JSONEq(t, `{"subtype":"anything","x":1}`, gjson.GetBytes(answer, "echo").Raw)
	init, err := st.Initialization(ctx)
	require.NoError(t, err)
	require.Equal(t, "mock", init.Models[0].Value)
}

// Spec: Close; set_model
func TestControlRequestFailures(t *testing.T) {
	t.Parallel()
	t.Run("a refusal is typed", func(t *testing.T) {
		t.Parallel()
		st := Query(t.Context(), Conversation(), childOptions(t, "refuses-control"))
		defer func() { st.Close(); <-st.Done() }()
		err := st.SetModel(t.Context(), "nope")
		var refused *ControlError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "set_model", refused.Subtype)
		require.Equal(t, "no such model", refused.Message)
	})
	t.Run("close rejects what waits", func(t *testing.T) {
		t.Parallel()
		opts := childOptions(t, "mute")
		st := Query(t.Context(), Conversation(), opts)
		failed := make(chan error)
		go func() { failed <- st.SetModel(context.Background(), "m") }()
		st.Close()
		require.ErrorIs(t, <-failed, ErrClosed)
		<-st.Done()
	})
	t.Run("a context ends the wait", func(t *testing.T) {
		t.Parallel()
		st := Query(t.Context(), Conversation(), childOptions(t, "mute"))
		defer func() { st.Close(); <-st.Done() }()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, st.SetModel(ctx, "m"), context.DeadlineExceeded)
	})
}

// Spec: options; wire
func TestOptionsReachTheChild(t *testing.T) {
	t.Parallel()
	opts := childOptions(t, "report")
	opts.FileCheckpointing, opts.QuestionPreviewHTML = true, true
	value := "v"
	opts.ExtraArgs = map[string]*string{"with": &value, "without": nil}
	result, err := Query(t.Context(), Text("x"), opts).Result()
	require.NoError(t, err)
	var report struct{ Args, Env []string }
	require.NoError(t, json.Unmarshal([]byte(result.Result), &report))
	require.Equal(t, []string{"--output-format", "stream-json", "--verbose", "--input-format", "stream-json",
		"--with", "v", "--without"}, report.Args)
	require.Contains(t, report.Env, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=true")
	require.Contains(t, report.Env, "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT=html")
	require.NotContains(t, report.Env, "USER="+os.Getenv("USER"), "Env replaces the environment")
}
