package turn

import (
	"fmt"

	"github.com/lambae/lambae/internal/jsonfield"
	"github.com/lambae/lambae/internal/provider"
)

// maxCalls is how many tools one answer may call. Each is an event of one chunk,
// and so is each result, while an event id has room for 4096.
const maxCalls = 1000

// errTooDeep refuses JSON from outside that would be recorded inside more JSON:
// beyond a depth nobody could read the log any more.
var errTooDeep = fmt.Errorf("it is JSON nested more than %d deep", jsonfield.MaxDepth)

// readAnswer returns the tool calls of a model's answer. An answer that the log
// cannot hold is a failed attempt.
func readAnswer(res *provider.Response) ([]toolCall, error) {
	if jsonfield.Depth(res.Body) > jsonfield.MaxDepth {
		return nil, &provider.Error{Status: res.Status, Detail: "unusable answer: " + errTooDeep.Error()}
	}
	calls := toolCalls(res.Content)
	if len(calls) > maxCalls {
		return nil, &provider.Error{Status: res.Status, Detail: fmt.Sprintf("unusable answer: it calls %d tools; %d is the most", len(calls), maxCalls)}
	}
	return calls, nil
}
