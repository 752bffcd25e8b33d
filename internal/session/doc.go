// Package session owns what a session is: its append-only log of events and
// marks, the state folded from it, the FIFO gate that lets one turn run at a
// time, and the keys and profiles that say who may do what.
//
// The log is the lock. Every change is one conditional put of the next chunk;
// whoever loses reads the chunk that won, folds it in and decides again. State
// is nothing but a fold of the log, so the rules of the protocol are pure
// functions from a [State] to the next chunk or a refusal.
//
// The package knows package table below it and nothing of providers, tools or
// HTTP above it.
package session
