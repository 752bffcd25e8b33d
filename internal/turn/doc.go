// Package turn runs turns: it takes the gate, asks the providers, runs the tools
// the server dispatches, pauses for those a client runs, and writes every step
// to the session's log before and after its effect (protocol, "The turn").
//
// It owns no state: what a turn has done is in the log, and a process that dies
// in the middle leaves a log that the next arrival can close and go on from. It
// knows nothing of HTTP; a call's live output goes to a [Sink].
package turn
