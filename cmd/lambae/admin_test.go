package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

// The whole life of a server, as the administrator sees it. Ids and times of the
// test server are the same in every run.
func TestAdministration(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{AllowedTools: []string{"get_current_time"}, Images: []string{"python:3.12", "node:22"}})
	var screen strings.Builder
	shell := func(args ...string) {
		got := d.call(t, "", append([]string{"admin"}, args...)...)
		screen.WriteString("$ lambae admin " + strings.Join(args, " ") + "\n" + got.stdout + got.stderr)
		if got.code != exitOK {
			screen.WriteString("exit code " + string(rune('0'+got.code)) + "\n")
		}
		screen.WriteString("\n")
	}
	shell("profile", "list")
	shell("profile", "create", "--name", "tutors", "--provider", "mock", "--fallback", "b1,b2", "--tool", "a", "--tool", "b", "--event-ttl-days", "30")
	shell("profile", "create", "--name", "tutors", "--provider", "mock")
	shell("profile", "show", "tutors")
	shell("profile", "edit", "tutors", "--tool=", "--system-prompt", "Be brief.\nBe kind.")
	shell("profile", "show", "tutors", "--json")
	shell("profile", "replace", "tutors", "--name", "tutor", "--provider", "mock")
	shell("profile", "show", "tutor")
	shell("profile", "show", "tutors")
	shell("profile", "create", "--name", "spare", "--provider", "mock", "--json")
	shell("profile", "list", "--limit", "2")
	shell("profile", "list", "--json")
	shell("key", "create", "--name", "ci", "--profile", "tutor")
	shell("key", "create", "--name", "ci2", "--profile", "tutor", "--quiet")
	shell("key", "create", "--name", "ci3", "--profile", "nobody")
	shell("key", "list")
	shell("profile", "delete", "tutor")
	shell("profile", "delete", "spare")
	session := d.session(t)
	_, err := session.Run(t.Context(), lambae.UserMessage("Hello!\nHow are you?"), nil)
	require.NoError(t, err)
	shell("session", "list")
	shell("session", "list", "--state", "closed")
	shell("session", "list", "--state", "tired")
	shell("session", "events", session.ID)
	shell("session", "events", session.ID, "--limit", "1", "--json")
	shell("session", "events", "ses_none")
	shell("key", "revoke", "key_none")
	keys := strings.Fields(d.ok(t, "admin", "key", "list"))
	shell("key", "revoke", keys[7])
	shell("session", "list")
	shell("provider", "list")
	shell("mcp", "list")
	shell("sandbox", "status")
	shell("sandbox", "status", "--json")
	shell("config", "show")
	golden(t, "admin.txt", screen.String())
}

func TestListsAreWhole(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	for range 250 {
		d.server.NewClientKey("k")
	}
	require.Equal(t, 252, strings.Count(d.ok(t, "admin", "key", "list"), "\n"), "a line of headers and 251 keys")
	require.Equal(t, 251, strings.Count(d.ok(t, "admin", "key", "list", "--json"), "\n"))
	require.Equal(t, 220, strings.Count(d.ok(t, "admin", "key", "list", "--json", "--limit", "220"), "\n"))
}

func TestNewKeysWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	key := strings.TrimSpace(d.ok(t, "admin", "key", "create", "--name", "n", "--profile", d.server.ProfileID, "--quiet"))
	require.NoError(t, os.Remove(d.home.clientKeyFile()))
	d.env["BAE_CLIENT_KEY"] = key
	got := d.call(t, "hi\n", "chat")
	require.Equal(t, "You said: hi\n", got.stdout, got.stderr)
}

func TestAdminKeysComeFromWhereTheyAreSaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	require.NoError(t, os.Rename(d.home.adminKeyFile(), d.home.adminKeyFile()+".moved"))
	require.Contains(t, d.call(t, "", "admin", "key", "list").stderr, "no admin key in "+d.home.adminKeyFile())
	d.ok(t, "admin", "key", "list", "--key-file", d.home.adminKeyFile()+".moved")
	d.env["BAE_ADMIN_KEY_FILE"] = d.home.adminKeyFile() + ".moved"
	d.ok(t, "admin", "key", "list")

	require.NoError(t, os.WriteFile(d.home.adminKeyFile(), []byte("bae_admin_wrong"), 0o600))
	got := d.call(t, "", "admin", "key", "list", "--key-file", d.home.adminKeyFile())
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "invalid admin key (401 unauthorized); is it the key of this server")
	require.NoError(t, os.WriteFile(d.home.adminKeyFile(), []byte("two words"), 0o600))
	require.Contains(t, d.call(t, "", "admin", "key", "list", "--key-file", d.home.adminKeyFile()).stderr, "does not hold a key alone on a line")
}

func TestFunctionURLsAreKnown(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://abc123.lambda-url.eu-central-1.on.aws/": "eu-central-1",
		"https://abc123.lambda-url.us-east-1.on.aws":     "us-east-1",
		"http://127.0.0.1:8081":                          "",
		"https://lambda-url.eu-central-1.on.aws":         "",
		"https://example.com/lambda-url.x.on.aws":        "",
		"::": "",
	} {
		region, ok := functionURLRegion(address)
		require.Equal(t, want, region, address)
		require.Equal(t, want != "", ok, address)
	}
}

func TestADeploymentIsNamedBeforeOrAfterTheCommand(t *testing.T) {
	t.Parallel()
	root := (&app{}).commands()
	for _, words := range [][]string{
		{"admin", "--aws", "dev", "profile", "list"},
		{"admin", "--aws=dev", "profile", "list"},
		{"admin", "profile", "--aws", "dev", "list"},
		{"admin", "profile", "list", "--aws", "dev"},
	} {
		found, args, err := root.find(words)
		require.NoError(t, err, words)
		require.Equal(t, "lambae admin profile list", found.path())
		_, err = found.parse(args)
		require.NoError(t, err)
		require.Equal(t, "dev", found.flags.Lookup("aws").Value.String(), words)
	}
	for want, words := range map[string][]string{
		"--aws needs a value":                             {"admin", "--aws"},
		"flags go after the command; unexpected --limit":  {"admin", "--limit", "3", "profile", "list"},
		"flags go after the command; unexpected --aws=de": {"--aws=de", "admin", "profile", "list"},
	} {
		_, _, err := root.find(words)
		require.EqualError(t, err, want)
	}
}

func TestADeploymentAndAnAddressExcludeEachOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	for _, words := range [][]string{{"admin", "key", "list"}, {"chat"}, {"tail", "ses_1"}} {
		got := d.call(t, "", append(words, "--aws", "dev", "--url", "http://x")...)
		require.Equal(t, exitUsage, got.code, words)
		require.Contains(t, got.stderr, "--aws and --url exclude each other")
	}
}
