package claude

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Spec: Startup
func TestWarmAnswersOneQuery(t *testing.T) {
	t.Parallel()
	cleaned := 0
	opts := childOptions(t, "echo")
	opts.Cleanup = func() { cleaned++ }
	w, err := Startup(t.Context(), opts, 0)
	require.NoError(t, err)
	st, err := w.Query(t.Context(), Text("warm"))
	require.NoError(t, err)
	_, err = w.Query(t.Context(), Text("again"))
	require.ErrorIs(t, err, ErrWarmUsed)
	require.NoError(t, w.Close(), "closing a used Warm leaves its stream alone")
	result, err := st.Result()
	require.NoError(t, err)
	require.Equal(t, "done: warm", result.Result)
	<-st.Done()
	require.Equal(t, 1, cleaned)
}

// Spec: Startup; Close
func TestWarmClosesUnused(t *testing.T) {
	t.Parallel()
	opts := childOptions(t, "echo")
	cleaned := 0
	opts.Cleanup = func() { cleaned++ }
	w, err := Startup(t.Context(), opts, 0)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	_, err = w.Query(t.Context(), Text("late"))
	require.ErrorIs(t, err, ErrClosed)
	<-w.s.done
	require.Equal(t, 1, cleaned)
}

// Spec: Startup; cancellation
func TestWarmQueryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w, err := Startup(t.Context(), childOptions(t, "echo"), 0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	st, err := w.Query(ctx, Conversation())
	require.NoError(t, err)
	cancel()
	_, err = st.Next()
	require.ErrorIs(t, err, ErrAborted)
	<-st.Done()
}

// Spec: Startup
func TestStartupFailures(t *testing.T) {
	t.Parallel()
	t.Run("takes too long", func(t *testing.T) {
		t.Parallel()
		_, err := Startup(t.Context(), childOptions(t, "mute"), 50*time.Millisecond)
		require.ErrorContains(t, err, "claude did not initialize within 50ms")
	})
	t.Run("child dies", func(t *testing.T) {
		t.Parallel()
		_, err := Startup(t.Context(), childOptions(t, "dead"), 0)
		var exit *ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 3, exit.Code)
	})
	t.Run("context ends", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := Startup(ctx, childOptions(t, "mute"), 0)
		require.ErrorIs(t, err, ErrAborted)
	})
}
