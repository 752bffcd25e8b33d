package lambae

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Values of [APIError.Type] (seed, "Errors (REST endpoints)"; the admin API
// adds a few).
const (
	TypeBadRequest                 = "bad_request"
	TypeUnauthorized               = "unauthorized"
	TypeNotFound                   = "not_found"
	TypeToolNotAllowed             = "tool_not_allowed"
	TypeProfileMismatch            = "profile_mismatch"
	TypeSessionClosed              = "session_closed"
	TypeIdempotencyMismatch        = "idempotency_mismatch"
	TypeDuplicateName              = "duplicate_name"
	TypeProfileInUse               = "profile_in_use"
	TypeProfileUnavailable         = "profile_unavailable"
	TypePrimaryProviderUnavailable = "primary_provider_unavailable"
	TypeReservedToolName           = "reserved_tool_name"
	TypeInvalidSubagentTools       = "invalid_subagent_tools"
	TypeInternal                   = "internal"
)

// APIError is an HTTP answer that refuses a request: a problem document
// (RFC 7807). When something between client and server answered instead, Type
// is empty and Detail says what came.
type APIError struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Error implements error.
func (e *APIError) Error() string {
	text := fmt.Sprintf("%d %s", e.Status, e.Title)
	if e.Type != "" {
		text = fmt.Sprintf("%d %s", e.Status, e.Type)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// maxProblem bounds how much of a refusal is read, in bytes.
const maxProblem = 1 << 20

// ReadAPIError makes an error of an answer that is not a success, and closes
// its body.
func ReadAPIError(response *http.Response) *APIError {
	defer response.Body.Close()
	problem := &APIError{}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err != nil || json.Unmarshal(body, problem) != nil || problem.Type == "" {
		kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
		if kind == "" {
			kind = "nothing readable"
		}
		problem = &APIError{Detail: "the answer is " + kind + ", not a problem document; is this the address of a lambae server?"}
	}
	problem.Status = response.StatusCode
	if problem.Title == "" {
		problem.Title = http.StatusText(response.StatusCode)
	}
	return problem
}

// Values of [RPCError.Code] (seed, "JSON-RPC errors").
const (
	CodeParse                  = -32700
	CodeInvalidRequest         = -32600
	CodeMethodNotFound         = -32601
	CodeInvalidParams          = -32602
	CodeInternal               = -32603
	CodeSession                = -32000 // the session's state forbids it, or the stream lagged
	CodeDriverNotRegistered    = -32001
	CodeSandboxImageNotAllowed = -32011
	CodeSandboxStartFailed     = -32012
	CodeSandboxNotRunning      = -32013
	CodeSubagentNotFound       = -32014
	CodeToolNotAllowed         = -32015
)

// RPCError is the error object that ends a call or a subscription.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *RPCError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Is makes errors.Is(err, [ErrLagged]) work.
func (e *RPCError) Is(target error) bool {
	return target == ErrLagged && e.Code == CodeSession && strings.HasPrefix(e.Message, "lagged")
}

var (
	// ErrLagged matches the error of a server that ended a stream because its
	// reader was too slow or its own time was up. Subscriptions and sends deal
	// with it themselves; it surfaces only when they cannot.
	ErrLagged = errors.New("the server ended the stream; reconnect")
	// ErrProvidersFailed matches the error of a turn in which every model
	// provider failed. The session is then in state error.
	ErrProvidersFailed = errors.New("every model provider failed")
	// ErrLoopLimit matches the error of a turn that made too many provider
	// round trips. The session is then in state error.
	ErrLoopLimit = errors.New("the turn made too many provider round trips")
)

// TurnError is a turn that came to its result but failed: it matches
// [ErrProvidersFailed] or [ErrLoopLimit].
type TurnError struct {
	Reason string  // the reason of the session.error event
	Result *Result // the server's result: a generic message and all events
}

// Error implements error.
func (e *TurnError) Error() string { return e.Unwrap().Error() }

// Unwrap gives the sentinel that belongs to the reason.
func (e *TurnError) Unwrap() error {
	if e.Reason == ReasonLoopLimit {
		return ErrLoopLimit
	}
	return ErrProvidersFailed
}
