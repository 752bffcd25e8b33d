package claude

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// specRows are the rows of the specification, by the name that tests give them
// in their documentation, in a line "Spec: row; row". A row that lists several
// functions or requests is one row for each of them.
func specRows() []string {
	return []string{
		"Query",                             // a string or a sequence of messages in, messages out
		"options",                           // fields, and every other flag through ExtraArgs
		"cancellation",                      // the context; ErrAborted
		"initialize",                        // control requests to claude
		"interrupt",                         //
		"set_model",                         // effective in the turn's next round trip
		"set_permission_mode",               //
		"can_use_tool",                      // control requests from claude
		"hook_callback",                     //
		"mcp_message",                       //
		"Startup",                           // one query; clean-up on every way out
		"Close",                             // returns in two seconds, ends the process group, rejects what waits
		"ResolveSettings",                   // merged, with where each value came from
		"FilterEscalatingDefaultMode",       //
		"NewMCPServer and Tool",             // in-process, schema from the Go types
		"ListSessions",                      // local files, or any store
		"GetSessionInfo",                    //
		"GetSessionMessages",                //
		"RenameSession",                     //
		"TagSession",                        // nil clears
		"DeleteSession",                     //
		"ForkSession",                       //
		"ImportSessionToStore",              // ordered, safe to repeat, bounded memory
		"FoldSessionSummary",                // incremental
		"ListSubagents",                     //
		"GetSubagentMessages",               //
		"a store with Append and Load",      // is enough for all but listing
		"store contract",                    // package storetest
		"InMemoryStore",                     //
		"FileStore",                         //
		"DynamoDB store",                    //
		"mirror",                            // by file; 500 entries, 1,048,576 UTF-16 units, 60 s, 200 and 800 ms
		"mirror_error",                      // on the message stream; the local file stays
		"eager flush",                       //
		"resume from a store",               // a temporary tree; store failures before any process
		"EphemeralSession with a store",     // refused, with advice
		"ParseDirectConnectURL",             //
		"DirectConnect",                     // session, socket, lines, typed failures
		"DeleteSessionOnClose",              // awaited, and not when the peer has closed
		"reconnects",                        //
		"constants",                         // those of the JavaScript package
		"project folders",                   // of the same names as claude's
		"wire",                              // unknown types and fields are kept, lines of many megabytes
		"a child that exits non-zero",       // its code and the last 64 KiB of stderr
		"nothing is left behind",            // no goroutine, no process
		"examples",                          // that run
		"names of the JavaScript SDK",       // each has its Go name
		"speed",                             // benchmarks and limits
		"agreement with the JavaScript SDK", // equal answers and files on the same folder
		"agreement with the binary",         // the real claude reads and writes what we do
	}
}

// Every row of the specification has a test that names it, and no test names a
// row that there is not.
func TestEveryRowOfTheSpecHasATest(t *testing.T) {
	t.Parallel()
	named := make(map[string][]string)
	for name, documentation := range documentedTests(t) {
		for line := range strings.Lines(documentation) {
			rows, ok := strings.CutPrefix(strings.TrimSpace(line), "Spec: ")
			if !ok {
				require.NotContains(t, line, "Spec:", "%s: a row is named in a line of its own", name)
				continue
			}
			for row := range strings.SplitSeq(rows, "; ") {
				require.Contains(t, specRows(), row, "%s names a row that is not in the specification", name)
				named[row] = append(named[row], name)
			}
		}
	}
	for _, row := range specRows() {
		require.NotEmpty(t, named[row], `no test names the row %q: add "Spec: %s" to the documentation of one`, row, row)
	}
}

// documentedTests returns the documentation of all tests, benchmarks and
// examples of the SDK, those behind build tags too.
func documentedTests(t *testing.T) map[string]string {
	docs := make(map[string]string)
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && isTestName(f.Name.Name) && len(f.Body.List) > 0 {
				docs[path+": "+f.Name.Name] = f.Doc.Text()
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	return docs
}

func isTestName(name string) bool {
	for _, prefix := range []string{"Test", "Benchmark", "Example"} {
		if strings.HasPrefix(name, prefix) && name != "TestMain" {
			return true
		}
	}
	return false
}
