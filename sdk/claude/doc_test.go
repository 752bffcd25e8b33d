package claude

import (
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of names in the package documentation must have every name of the
// JavaScript SDK, no empty cell, and only Go names that exist.
//
// Spec: names of the JavaScript SDK
func TestTableOfNamesIsWhole(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(source), "//	JavaScript")
	require.True(t, ok)
	exported := exportedNames(t)
	goName := regexp.MustCompile(`\b[A-Z]\w+`)
	var left strings.Builder
	for line := range strings.Lines(table) {
		row, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//	")
		if !ok {
			continue
		}
		require.Greater(t, len(row), 36, row)
		js, ours := strings.TrimSpace(row[:36]), strings.TrimSpace(row[36:])
		require.NotEmpty(t, js, row)
		require.NotEmpty(t, ours, row)
		left.WriteString(js + "\n")
		for _, name := range goName.FindAllString(ours, -1) {
			require.True(t, exported[name] || name == "Go", "%s is in the table but not in the package", name)
		}
	}
	for _, name := range []string{
		"query", "startup", "WarmQuery", "resolveSettings", "filterEscalatingDefaultMode", "createSdkMcpServer", "tool",
		"listSessions", "getSessionInfo", "getSessionMessages", "renameSession", "tagSession", "deleteSession", "forkSession",
		"importSessionToStore", "foldSessionSummary", "listSubagents", "getSubagentMessages", "SessionStore", "InMemorySessionStore",
		"TranscriptMirrorBatcher", "parseDirectConnectUrl", "DirectConnectTransport", "DirectConnectError", "HOOK_EVENTS",
		"EXIT_REASONS", "SYSTEM_PROMPT_DYNAMIC_BOUNDARY", "AbortError",
	} {
		require.Regexp(t, `\b`+name+`\b`, left.String())
	}
}

// exportedNames returns the exported functions, types, methods, fields,
// constants and variables of this package.
func exportedNames(t *testing.T) map[string]bool {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	names := make(map[string]bool)
	word := regexp.MustCompile(`\b[A-Z]\w+`)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") || f.Name() == "doc.go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ParseComments)
		require.NoError(t, err)
		for name := range parsed.Scope.Objects {
			if doc.IsPredeclared(name) {
				continue
			}
			names[name] = true
		}
		source, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		for line := range strings.Lines(string(source)) { // methods and fields
			if strings.HasPrefix(line, "func (") || strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "\t//") {
				for _, name := range word.FindAllString(line, -1) {
					names[name] = true
				}
			}
		}
	}
	return names
}
