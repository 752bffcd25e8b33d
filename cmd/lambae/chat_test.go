package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

// clock is a model that asks for the time when it is asked for it.
func clock(turn lambaetest.Turn) ([]lambae.Block, error) {
	last := turn.Messages[len(turn.Messages)-1].Content
	for _, block := range last.Blocks() {
		if result, ok := block.ToolResult(); ok {
			return []lambae.Block{lambae.TextBlock("It is " + result.Content.Text())}, nil
		}
	}
	if strings.Contains(last.Text(), "time") {
		id := fmt.Sprint("t", len(turn.Messages))
		return []lambae.Block{lambae.TextBlock("Let me see."), lambaetest.ToolUse(id, "get_current_time", `{"timezone":"UTC"}`)}, nil
	}
	return lambaetest.Echo(turn)
}

func TestAPipedChatPrintsAnswersOnly(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{Model: clock, AllowedTools: []string{"get_current_time"}})
	running := d.start(t, "chat")
	running.say(t, "hello")
	running.say(t, "")
	running.say(t, "what time is it?")
	running.say(t, "//help")
	require.NoError(t, running.stdin.Close())
	require.Equal(t, exitOK, <-running.code)
	require.Equal(t, "You said: hello\nLet me see.\nIt is 2026-07-06T18:26:10Z\nYou said: /help\n", running.stdout.String())
	golden(t, "chat-piped.txt", running.stderr.String())
}

func TestAChatComesBackToItsSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	first := d.call(t, strings.Repeat("hi\n", 8), "chat")
	require.Equal(t, exitOK, first.code, first.stderr)
	id := strings.TrimSuffix(strings.Fields(first.stderr)[1], ",")
	again := d.call(t, "/history\n", "chat", id)
	require.Equal(t, exitOK, again.code, again.stderr)
	require.Contains(t, again.stderr, "(6 messages before; /history shows all)")
	require.Equal(t, 10+16, strings.Count(again.stderr, " › "))
	require.Equal(t, 1, d.server.SessionCount())

	quick := d.call(t, "hi\n", "chat", id, "--no-history")
	require.Equal(t, "You said: hi\n", quick.stdout)
	require.NotContains(t, quick.stderr, " › ")
}

func TestAChatShowsOthersLive(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{Model: clock, AllowedTools: []string{"get_current_time"}, Images: []string{"img"}})
	session := d.session(t)
	running := d.start(t, "chat", session.ID)
	running.say(t, "first")
	running.stdout.await(t, "You said: first\n")

	_, err := session.Run(t.Context(), lambae.UserMessage("from elsewhere"), nil)
	require.NoError(t, err)
	running.stderr.await(t, "you elsewhere › from elsewhere\nagent › You said: from elsewhere\n")

	_, secret := d.server.NewClientKey("friend")
	friend, err := lambae.New(d.server.URL, secret, nil)
	require.NoError(t, err)
	joined, err := friend.Join(t.Context(), session.ID, &lambae.OpenRequest{ClientVersion: "phone/1", Tools: []lambae.Tool{{Name: "get_current_time"}}})
	require.NoError(t, err)
	running.stderr.await(t, " joined, phone/1, tools get_current_time")
	_, err = joined.Run(t.Context(), lambae.UserMessage("what time is it?"), nil)
	require.NoError(t, err)
	running.stderr.await(t, " › what time is it?\n  ⚙ get_current_time {\"timezone\":\"UTC\"} (client)\nagent › Let me see.\n"+
		"  ↳ failed: tool \"get_current_time\" is declared but this client has no handler for it\n")

	_, err = joined.StartRemoteSandbox(t.Context(), "img")
	require.NoError(t, err)
	running.stderr.await(t, "sandbox running: remote, img, sbx_")
	require.NoError(t, joined.Close(t.Context()))
	running.stderr.await(t, "the session was closed, client_close")
	require.NoError(t, running.stdin.Close())
	require.Equal(t, exitOK, <-running.code)
	require.NotContains(t, running.stderr.String(), "you elsewhere › first", "the own message is not somebody else's")
	require.NotContains(t, running.stderr.String(), "The session stays open")
}

func TestEveryCommandOfTheChat(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{AllowedTools: []string{"get_current_time"}, Images: []string{"img"}})
	target := d.session(t)
	got := d.call(t, strings.Join([]string{
		"/help", "/session", "/who", "/tools", "/sandbox start img", "/sandbox run echo hi", "/sandbox stop",
		"/new", "/join " + target.ID, "hi", "/close",
	}, "\n"), "chat")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Equal(t, "You said: hi\n", got.stdout)
	// What the subscription shows comes when it comes.
	live := regexp.MustCompile(`(?m)^(sandbox (start|running|stop|stopped):|the session was closed).*\n`)
	golden(t, "chat-commands.txt", live.ReplaceAllString(got.stderr, ""))
	require.Equal(t, lambae.TypeSessionClosed, problemType(target.Close(t.Context())))
}

func problemType(err error) string {
	if problem, ok := errors.AsType[*lambae.APIError](err); ok {
		return problem.Type
	}
	return ""
}

func TestAPipedChatEndsWithTheFirstFailure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ input, want string }{
		"an unknown command":              {"/jion x", "no command /jion; did you mean /join?; /help lists them"},
		"a command without what it needs": {"/join", "/join needs a session id (ses_…)"},
		"a session that is not there":     {"/join ses_none", "no session ses_none (404 not_found)"},
		"a sandbox command":               {"/sandbox fly", "/sandbox takes start <image>, run <command> or stop"},
		"a sandbox that does not run":     {"/sandbox run ls", "no remote sandbox is running for this session"},
		"a failed turn":                   {"fail", "every model provider failed; the session has ended, /new opens another"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, lambaetest.Options{Model: func(turn lambaetest.Turn) ([]lambae.Block, error) {
				if turn.Messages[len(turn.Messages)-1].Content.Text() == "fail" {
					return nil, errors.New("overloaded")
				}
				return lambaetest.Echo(turn)
			}})
			got := d.call(t, test.input+"\nhi\n", "chat")
			require.NotEqual(t, exitOK, got.code)
			require.Contains(t, got.stderr, test.want)
			require.NotContains(t, got.stdout, "You said: hi")
		})
	}
}

func TestInterruptsOfAChat(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan string, 8), make(chan struct{})
	d := newDesk(t, lambaetest.Options{Model: func(turn lambaetest.Turn) ([]lambae.Block, error) {
		text := turn.Messages[len(turn.Messages)-1].Content.Text()
		asked <- text
		if text == "slow" {
			<-answer
		}
		return lambaetest.Echo(turn)
	}})
	running := d.start(t, "chat")
	running.say(t, "slow")
	require.Equal(t, "slow", <-asked)
	running.interrupts <- os.Interrupt
	running.stderr.await(t, "Not waiting any more; what has begun goes on in the server.")
	close(answer)
	running.stderr.await(t, "agent › You said: slow")
	running.say(t, "quick")
	running.stdout.await(t, "You said: quick\n")
	running.say(t, "/session") // when this is answered, nothing is waited for
	running.stderr.await(t, "Others come in with")
	running.interrupts <- os.Interrupt
	require.Equal(t, exitOK, <-running.code)
	require.Contains(t, running.stderr.String(), "The session stays open. To come back: lambae chat ses_")
}

func TestTerminationEndsAChatEvenWhileItWaits(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	d := newDesk(t, lambaetest.Options{Model: func(turn lambaetest.Turn) ([]lambae.Block, error) {
		asked <- struct{}{}
		<-answer
		return lambaetest.Echo(turn)
	}})
	t.Cleanup(func() { close(answer) })
	running := d.start(t, "chat")
	running.say(t, "slow")
	<-asked
	running.interrupts <- syscall.SIGTERM
	require.Equal(t, exitOK, <-running.code)
}

func TestAChatWithASessionThatEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	first := d.call(t, "hi\n/close\n", "chat")
	id := strings.TrimSuffix(strings.Fields(first.stderr)[1], ",")
	got := d.call(t, "/history\n", "chat", id)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stderr, "The session has ended: it can be read, not continued.")
	require.Contains(t, got.stderr, "agent › You said: hi")
	got = d.call(t, "more\n", "chat", id)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "lambae chat: session is closed, not open")
}

func TestToolsThatTheProfileForbidsAreNotDeclared(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	for _, args := range [][]string{{"chat"}, {"chat", "--no-tools"}} {
		got := d.call(t, "/tools\nhi\n", args...)
		require.Equal(t, exitOK, got.code, got.stderr)
		require.Contains(t, got.stderr, "None. A profile allows them with: lambae admin profile edit")
	}
	// Who comes back with a session key does not know the profile.
	id := strings.TrimSuffix(strings.Fields(d.call(t, "", "chat").stderr)[1], ",")
	got := d.call(t, "/tools\n", "chat", id)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stderr, "None.")

	d.ok(t, "admin", "profile", "edit", "main", "--tool", "get_current_time")
	got = d.call(t, "/tools\n", "chat", id)
	require.Contains(t, got.stderr, "get_current_time: The current time on the user's computer.")
}
