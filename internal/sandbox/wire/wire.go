// Package wire is what sandboxd and its server say to each other, under
// /api/v1/sandboxes/{sandbox}: JSON over HTTP, with the sandbox's own token as
// bearer. All that the server starts by itself is a ring of the doorbell, a
// WebSocket, which means: look for commands.
//
//	POST /enroll     Enrollment, with the one-time code as bearer → Enrolled
//	GET  /commands   ?after=n → Orders; 410 when the sandbox is not wanted any more
//	POST /results    Outcome, as often as it takes
//	POST /output     Output of a command that is watched
//	GET  /doorbell   a WebSocket; any message is a ring
package wire

import "github.com/lambae/lambae/internal/sandbox"

// TokenPrefix begins a sandbox's token and its one-time code; 48 hex characters
// follow.
const TokenPrefix = "bae_sbx_"

// Boot is what sandboxd is told when it starts. It comes on standard input, never
// in the environment or the arguments of a process that others can look at.
type Boot struct {
	URL     string `json:"url"` // of the server, without a path
	Sandbox string `json:"sandbox"`
	// Code enrolls one sandboxd and is of no use after that.
	Code string `json:"code"`
	// Dir is where commands run; "" is the folder sandboxd starts in.
	Dir string `json:"dir,omitempty"`
	// Lock is a file that sandboxd keeps locked as long as it lives; "" for none.
	Lock string `json:"lock,omitempty"`
	// MaxSeconds is how long sandboxd may live at most; 0 is as long as it is wanted.
	MaxSeconds int64 `json:"max_seconds,omitempty"`
}

// Enrollment says which token sandboxd has made for itself: the server learns
// only its hash.
type Enrollment struct {
	TokenHash string `json:"token_hash"` // hex SHA-256
}

// Enrolled answers it.
type Enrolled struct {
	// Doorbell is the URL of the WebSocket; "" when there is none, and sandboxd has
	// to ask again and again.
	Doorbell string `json:"doorbell"`
}

// Order is one thing to do. Each is done once, whatever is fetched twice.
type Order struct {
	N       int64  `json:"n"`
	Command string `json:"command,omitempty"`
	Stdin   string `json:"stdin,omitempty"`
	// TimeoutMS is how long the command may run.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Watched asks for the output as it comes.
	Watched bool `json:"watched,omitempty"`
	// Kill is the command to end instead, when there is no Command to run.
	Kill int64 `json:"kill,omitempty"`
}

// Orders answers GET /commands, in order.
type Orders struct {
	Orders []Order `json:"orders"`
}

// Outcome is how an order ended: Result, or an Error when it could not be run.
type Outcome struct {
	N      int64           `json:"n"`
	Result *sandbox.Result `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Output is a piece of a watched command's output.
type Output struct {
	N      int64  `json:"n"`
	Seq    int64  `json:"seq"`    // from 1, without holes
	Stream string `json:"stream"` // stdout or stderr
	Text   string `json:"text"`
}
