package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

// bare calls lambae with an empty environment and no server anywhere.
func bare(t *testing.T, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	folder := t.TempDir()
	code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, func(name string) string {
		if name == "LAMBAE_HOME" {
			return folder
		}
		return ""
	})
	return outcome{code, strings.ReplaceAll(stdout.String(), folder, ".lambae"), strings.ReplaceAll(stderr.String(), folder, ".lambae")}
}

// walk visits a command and all below it.
func walk(c *command, visit func(*command)) {
	visit(c)
	for _, sub := range c.subs {
		walk(sub, visit)
	}
}

func TestTheVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	require.Equal(t, d.ok(t, "version"), d.ok(t, "--version"))
}

func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	walk((&app{}).commands(), func(c *command) {
		words := strings.Fields(c.path())
		asked := bare(t, append([]string{"help"}, words[1:]...)...)
		require.Equal(t, exitOK, asked.code, asked.stderr)
		golden(t, "help/"+strings.Join(words, "-")+".txt", asked.stdout)
		flagged := bare(t, append(words[1:], "--help")...)
		require.Equal(t, asked, flagged, c.path())
		for _, line := range strings.Split(asked.stdout, "\n") {
			require.LessOrEqual(t, len([]rune(line)), 130, "%s: %s", c.path(), line)
		}
	})
	require.Equal(t, bare(t, "help").stdout, bare(t).stdout, "no command is a wish for help")
}

func TestWrongCallsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		"chta":                             `lambae: unknown command "chta"; did you mean chat?`,
		"quux":                             `lambae: unknown command "quux"` + "\nSee: lambae help\n",
		"--json":                           "lambae: flags go after the command; unexpected --json",
		"admin keys":                       `lambae admin: unknown command "keys"; did you mean key?` + "\nSee: lambae help admin\n",
		"admin key creat":                  `lambae admin key: unknown command "creat"; did you mean create?`,
		"chat --ulr http://x":              "lambae chat: unknown flag --ulr; did you mean --url?",
		"chat --frobnicate":                "lambae chat: unknown flag --frobnicate\nSee: lambae help chat\n",
		"chat --url":                       "lambae chat: --url needs a value",
		"chat a b":                         `lambae chat: unexpected argument "b"`,
		"tail":                             "lambae tail: missing <session id>; no session was opened here yet",
		"tail x --live --since e":          "lambae tail: --live and --since exclude each other",
		"tail x --json=perhaps":            `lambae tail: --json: "perhaps" is not valid`,
		"admin key list --limit few":       `lambae admin key list: --limit: "few" is not valid`,
		"admin key create":                 "lambae admin key create: --name is needed",
		"admin key create --name n":        "lambae admin key create: --profile is needed",
		"admin profile create":             "lambae admin profile create: --name is needed",
		"admin profile replace p --name n": "lambae admin profile replace: --provider is needed",
		"admin key list":                   "lambae admin key list: no admin key in .lambae/admin.key",
		"help chat more":                   `lambae help: lambae chat has no subcommand "more"`,
		"help nothing":                     `lambae help: unknown command "nothing"`,
		"version 1":                        `lambae version: unexpected argument "1"`,
		"admin session events -- --json":   "no admin key",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			got := bare(t, strings.Fields(call)...)
			require.Contains(t, got.stderr, want)
			require.Empty(t, got.stdout)
			if strings.Contains(want, "no admin key") {
				require.Equal(t, exitFailure, got.code)
				return
			}
			require.Equal(t, exitUsage, got.code)
		})
	}
}

func TestAServerThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"chat", "--url", "http://127.0.0.1:9", "--key", "bae_k"},
		{"tail", "ses_a", "--url", "http://127.0.0.1:9", "--session-key", "bae_ses_k"},
	} {
		got := bare(t, args...)
		require.Equal(t, exitFailure, got.code)
		require.Contains(t, got.stderr, "no server at http://127.0.0.1:9 (")
		require.Contains(t, got.stderr, "start one with `make run`")
	}
}

func TestWithoutAKeyTheWaysToOneAreNamed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"chat"}, {"chat", "ses_a"}, {"tail", "ses_a"}} {
		got := bare(t, args...)
		require.Equal(t, exitFailure, got.code)
		require.Contains(t, got.stderr, "no client key: give one with --key or --key-file, set BAE_CLIENT_KEY, or start a server with `make run`, which writes .lambae/client.key")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got := bare(t, "version")
	require.Equal(t, exitOK, got.code)
	require.Regexp(t, `^lambae \S+ \(go\S+, \S+/\S+\)\n$`, got.stdout)
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want []string
		list list
		on   bool
	}{
		"before":              {[]string{"--item", "a", "x", "y"}, []string{"x", "y"}, list{"a"}, false},
		"between":             {[]string{"x", "--on", "y"}, []string{"x", "y"}, nil, true},
		"after":               {[]string{"x", "y", "-item=a,b", "--item", "c"}, []string{"x", "y"}, list{"a", "b", "c"}, false},
		"not after --":        {[]string{"x", "--", "--on"}, []string{"x", "--on"}, nil, false},
		"a lone dash is none": {[]string{"-", "x"}, []string{"-", "x"}, nil, false},
		"empty lists exist":   {[]string{"x", "y", "--item="}, []string{"x", "y"}, list{}, false},
		"values may be flags": {[]string{"x", "y", "--item", "--on"}, []string{"x", "y"}, list{"--on"}, false},
		"booleans may be off": {[]string{"x", "y", "--on=false"}, []string{"x", "y"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var items list
			var on bool
			c := newCommand("c", "")
			c.args = []argument{{"one", false}, {"two", false}}
			c.flags.Var(&items, "item", "")
			c.flags.BoolVar(&on, "on", false, "")
			got, err := c.parse(test.args)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Equal(t, test.list, items)
			require.Equal(t, test.on, on)
		})
	}
}

func TestEditsIsADistance(t *testing.T) {
	t.Parallel()
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := edits(a, b)
		require.Equal(t, d, edits(b, a))
		require.Equal(t, a == b, d == 0)
		require.LessOrEqual(t, d, max(len(a), len(b)))
		require.GreaterOrEqual(t, d, max(len(a), len(b))-min(len(a), len(b)))
	})
	require.Equal(t, 1, edits("chta", "chat"))
	require.Equal(t, 3, edits("kitten", "sitting"))
}
