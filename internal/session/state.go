package session

import (
	"encoding/json"
	"slices"
)

// idemKeep is how long a spent idempotency key is remembered, in ms.
const idemKeep = 24 * 60 * 60 * 1000

// State is the fold of a log: everything the rules decide on. It changes only
// by [State.Apply], chunk by chunk, and has a JSON form, which snapshots keep.
// The message history is beside it, see [History].
type State struct {
	ID            string               `json:"id"`
	Next          int64                `json:"next"`       // number of the next chunk
	At            int64                `json:"at"`         // created_at of the last chunk, Unix ms
	Created       int64                `json:"created"`    // Unix ms
	Status        string               `json:"status"`     // open, closed or error
	Ended         int64                `json:"ended"`      // when it stopped being open, Unix ms
	ProfileID     string               `json:"profile_id"` //
	ClientVersion *string              `json:"client_version"`
	Clients       map[string]*Client   `json:"clients"` // by client key id
	MCP           []Tool               `json:"mcp,omitempty"`
	Turn          *TurnState           `json:"turn,omitempty"`
	Queue         []Waiter             `json:"queue,omitempty"` // in arrival order
	Thread        thread               `json:"thread"`
	Sandbox       *Sandbox             `json:"sandbox,omitempty"`      // starting or running
	Stopping      []Sandbox            `json:"stopping,omitempty"`     // begun to stop
	Subagents     []Subagent           `json:"subagents,omitempty"`    // tracked, in launch order
	Unsubscribed  int64                `json:"unsubscribed,omitempty"` // chunk of the last session.unsubscribe
	Idem          map[string]*Spent    `json:"idem,omitempty"`
	Lists         map[string]struct{}  `json:"lists,omitempty"` // hashes of the tool lists in store
	Unknown       bool                 `json:"unknown,omitempty"`
	Hashes        map[string]SecretRef `json:"hashes"` // session keys by hash
}

// SecretRef says whose a session key is.
type SecretRef struct {
	Key string `json:"key"` // client key id
}

// Client is one client key that opened or joined the session.
type Client struct {
	Driver   bool   `json:"driver,omitempty"`
	Revoked  bool   `json:"revoked,omitempty"`
	Tools    []Tool `json:"tools,omitempty"`
	Sandbox  []Tool `json:"sandbox_tools,omitempty"`
	Subagent []Tool `json:"subagent_tools,omitempty"`
}

// Tool is a declared tool.
type Tool struct {
	Name string `json:"name"`
	// Server is the MCP server that has it.
	Server string `json:"server,omitempty"`
	// Advert is what the model is shown: {name, description?, input_schema}.
	Advert json.RawMessage `json:"advert"`
	// Decl is the whole declaration of a subagent tool.
	Decl json.RawMessage `json:"decl,omitempty"`
}

// TurnState is the open turn.
type TurnState struct {
	// ID is the position of its last turn.begin or turn.resume. Every append of
	// the owner is decided against it.
	ID     int64  `json:"id"`
	Key    string `json:"key"`
	Boot   string `json:"boot"`
	Paused bool   `json:"paused,omitempty"`
	// Wall is the writer's clock at begin or resume, or at the pause.
	Wall int64 `json:"wall"`
	// Last is the newest chunk of the turn.
	Last int64  `json:"last"`
	Idem string `json:"idem,omitempty"`
}

// Waiter is an arrival that waits for the gate.
type Waiter struct {
	Pos  int64  `json:"pos"` // of its turn.queue mark
	Key  string `json:"key"`
	Boot string `json:"boot"`
	Wall int64  `json:"wall"`
	Idem string `json:"idem,omitempty"`
}

// Spent is what an idempotency key was spent on.
type Spent struct {
	Body string `json:"body"`
	At   int64  `json:"at"`
	// Pos is the first chunk of the call.
	Pos int64 `json:"pos"`
	// Waiter, Turn and End follow a sendMessage: where it queues, the turn it
	// began, the chunk that ended or paused it.
	Waiter  int64  `json:"waiter,omitempty"`
	Turn    int64  `json:"turn,omitempty"`
	End     int64  `json:"end,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// Create is the payload of the session.create mark.
type Create struct {
	ProfileID     string  `json:"profile_id"`
	ClientVersion *string `json:"client_version"`
	MCP           []Tool  `json:"mcp,omitempty"`
}

// Declaration is the payload of the tools.declare mark.
type Declaration struct {
	Tools    []Tool `json:"tools,omitempty"`
	Sandbox  []Tool `json:"sandbox_tools,omitempty"`
	Subagent []Tool `json:"subagent_tools,omitempty"`
}

// size is about how many bytes the state holds besides a few thousand: clients
// may declare megabytes of tools.
func (s *State) size() (n int) {
	add := func(tools []Tool) {
		for i := range tools {
			n += 128 + len(tools[i].Advert) + len(tools[i].Decl)
		}
	}
	add(s.MCP)
	for _, c := range s.Clients {
		add(c.Tools)
		add(c.Sandbox)
		add(c.Subagent)
	}
	if x := s.Thread.Open; x != nil {
		for _, r := range x.Results {
			n += len(r)
		}
	}
	return n + 256*len(s.Idem) + 128*(len(s.Hashes)+len(s.Lists))
}

func newState(id string) *State {
	return &State{ID: id, Status: StateOpen, Clients: map[string]*Client{}, Hashes: map[string]SecretRef{}}
}

// Open reports whether the session takes messages.
func (s *State) Open() bool { return s.Status == StateOpen }

// Driver reports whether the client key is a registered driver.
func (s *State) Driver(key string) bool {
	c := s.Clients[key]
	return c != nil && c.Driver
}

// Drivers returns the registered drivers' key ids, sorted.
func (s *State) Drivers() []string {
	out := []string{}
	for id, c := range s.Clients {
		if c.Driver {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Apply folds the next chunk. The chunk must be number [State.Next].
func (s *State) Apply(c *Chunk, h *History) {
	s.Next, s.At = c.N+1, c.At
	s.Unknown = s.Unknown || c.Unknown
	if t := s.Turn; t != nil && c.Turn == t.ID {
		t.Last = c.N
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		for _, m := range s.Thread.apply(e) {
			if h != nil {
				h.add(m)
			}
		}
		s.apply(c, e)
	}
}

func (s *State) apply(c *Chunk, e *Entry) {
	switch e.Type {
	case MarkCreate:
		var v Create
		_ = json.Unmarshal(e.Payload, &v)
		s.ProfileID, s.ClientVersion, s.MCP, s.Created = v.ProfileID, v.ClientVersion, v.MCP, e.Wall
	case MarkKey:
		s.client(e.Key)
		s.Hashes[e.Hash] = SecretRef{Key: e.Key}
	case MarkRevoked:
		s.client(e.Key).Revoked = true
		if s.Turn != nil && s.Turn.Key == e.Key {
			s.endTurn(c.N, "revoked")
		}
		s.Queue = slices.DeleteFunc(s.Queue, func(w Waiter) bool { return w.Key == e.Key })
	case MarkDeclare:
		var v Declaration
		_ = json.Unmarshal(e.Payload, &v)
		cl := s.client(e.Key)
		cl.Tools, cl.Sandbox, cl.Subagent = v.Tools, v.Sandbox, v.Subagent
	case MarkTools:
		cl := s.client(e.Key)
		cl.Tools = nil
		_ = json.Unmarshal(e.Payload, &cl.Tools)
	case SessionDriverRegister:
		s.client(e.Key).Driver = true
	case MarkQueue:
		w := Waiter{Pos: c.N, Key: e.Key, Boot: e.Boot, Wall: e.Wall}
		if sp := s.spend(c, e); sp != nil {
			w.Idem, sp.Waiter = e.Idem.Key, c.N
		}
		s.Queue = append(s.Queue, w)
	case MarkSkip:
		s.leave(e.Ref)
	case MarkBegin, MarkResume:
		s.leave(e.Ref)
		t := &TurnState{ID: c.N, Key: e.Key, Boot: e.Boot, Wall: e.Wall, Last: c.N}
		if sp := s.spend(c, e); sp != nil {
			t.Idem, sp.Turn = e.Idem.Key, c.N
		}
		s.Turn = t
	case MarkPause:
		if s.Turn != nil {
			s.settle(s.Turn, c.N, "paused")
			s.Turn.Paused, s.Turn.Wall = true, e.Wall
		}
	case MarkEnd:
		s.endTurn(c.N, e.Outcome)
	case MarkBroken:
		if s.Turn != nil && s.Turn.ID == e.Ref {
			s.endTurn(c.N, "broken: "+e.Outcome)
		}
	case MarkIdem:
		s.spend(c, e)
	case MarkUnsubs:
		s.Unsubscribed = c.N
	case ProviderRequest:
		if e.Hash != "" {
			if s.Lists == nil {
				s.Lists = map[string]struct{}{}
			}
			s.Lists[e.Hash] = struct{}{}
		}
	case MarkSandbox, SandboxRunning, SandboxStop, SandboxStopped, SandboxError:
		s.applySandbox(e)
	case MarkSubagent, MarkForget, MarkOutput, SubagentCompleted, SubagentFailed, SubagentCancelled:
		s.applySubagent(c, e)
	case SessionClose:
		s.terminate(c, StateClosed)
	case MarkErrState:
		s.terminate(c, StateError)
	}
}

func (s *State) client(key string) *Client {
	c := s.Clients[key]
	if c == nil {
		c = &Client{}
		s.Clients[key] = c
	}
	return c
}

// leave takes the waiter at pos out of the queue.
func (s *State) leave(pos int64) {
	if pos != 0 {
		s.Queue = slices.DeleteFunc(s.Queue, func(w Waiter) bool { return w.Pos == pos })
	}
}

func (s *State) endTurn(n int64, outcome string) {
	if s.Turn != nil {
		if !s.Turn.Paused {
			s.settle(s.Turn, n, outcome)
		}
		s.Turn = nil
	}
}

// settle notes how the call that runs the turn ended.
func (s *State) settle(t *TurnState, n int64, outcome string) {
	if sp := s.Idem[t.Idem]; sp != nil && sp.End == 0 {
		sp.End, sp.Outcome = n, outcome
	}
}

// terminate ends the session. The first terminal state stays.
func (s *State) terminate(c *Chunk, status string) {
	if s.Status != StateOpen {
		return
	}
	s.Status, s.Ended = status, c.At
	if status == StateClosed {
		s.endTurn(c.N, "closed")
	}
	s.Queue = nil
}

// spend remembers an entry's idempotency key and forgets those that are too
// old. It returns the key's record, nil when the entry has none.
func (s *State) spend(c *Chunk, e *Entry) *Spent {
	if e.Idem == nil {
		return nil
	}
	if sp := s.Idem[e.Idem.Key]; sp != nil && sp.Body == e.Idem.Body && sp.End == 0 {
		return sp
	}
	if s.Idem == nil {
		s.Idem = map[string]*Spent{}
	}
	for k, sp := range s.Idem {
		if c.At-sp.At > idemKeep {
			delete(s.Idem, k)
		}
	}
	sp := &Spent{Body: e.Idem.Body, At: c.At, Pos: c.N}
	s.Idem[e.Idem.Key] = sp
	return sp
}
