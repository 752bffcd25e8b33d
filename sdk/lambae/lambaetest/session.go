package lambaetest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

// stored is what an idempotency key stands for.
type stored struct {
	body   []byte
	status int // of a REST answer
	answer any
	turn   *turn // of session.sendMessage
}

// session is one session; the server's lock guards it.
type session struct {
	admin.Session
	profile  *admin.Profile
	events   []lambae.Event
	keys     map[string]*clientKey  // by session key
	declared map[string]declaration // by client key id
	drivers  []string               // key ids, sorted
	history  []lambae.Message
	queue    []*turn // the running or paused one first
	sandbox  *lambae.RemoteSandbox
	unsubs   int // how often somebody ended the subscriptions
}

// declaration is what a client opens or joins with.
type declaration struct {
	ClientVersion *string               `json:"client_version"`
	Tools         []lambae.Tool         `json:"tools"`
	SandboxTools  []lambae.Tool         `json:"sandbox_tools"`
	SubagentTools []lambae.SubagentTool `json:"subagent_tools"`
}

func (s *Server) clientHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.locked(func(*http.Request) (int, any) { return http.StatusOK, nil }))
	mux.HandleFunc("GET /api/v1/meta", s.locked(func(*http.Request) (int, any) {
		return http.StatusOK, lambae.Meta{Version: "0.1.0", APIVersions: []string{"v1"}}
	}))
	mux.HandleFunc("POST /api/v1/sessions", s.locked(s.open))
	mux.HandleFunc("POST /api/v1/sessions/{id}/join", s.locked(s.join))
	mux.HandleFunc("GET /api/v1/sessions/{id}/participants", s.locked(s.keyed(func(r *http.Request, ses *session) (int, any) {
		return http.StatusOK, map[string]any{"drivers": append([]string{}, ses.drivers...)}
	})))
	mux.HandleFunc("GET /api/v1/sessions/{id}/events", s.locked(s.keyed(func(r *http.Request, ses *session) (int, any) {
		return pageOf(r, ses.events)
	})))
	mux.HandleFunc("DELETE /api/v1/sessions/{id}", s.locked(s.keyed(s.closeSession)))
	mux.HandleFunc("POST /api/v1/sessions/{id}/rpc", s.rpc)
	mux.HandleFunc("/", s.locked(func(*http.Request) (int, any) {
		return problem(http.StatusNotFound, lambae.TypeNotFound, "no such path")
	}))
	return mux
}

// open and join answer a repeated request with the first one's answer.
func (s *Server) open(r *http.Request) (int, any) {
	return s.idempotent(r, func(key *clientKey, declared declaration) (int, any) {
		profile := s.profile(key.ProfileID)
		if status, refusal := check(profile, declared); status != 0 {
			return status, refusal
		}
		ses := &session{profile: profile, keys: map[string]*clientKey{}, declared: map[string]declaration{}}
		ses.Session = admin.Session{
			ID: s.newID("ses_"), ProfileID: profile.ID, State: admin.StateOpen, ClientVersion: declared.ClientVersion, CreatedAt: s.now(),
		}
		s.sessions = append(s.sessions, ses)
		return s.enter(ses, key, declared, lambae.EventSessionOpen)
	})
}

func (s *Server) join(r *http.Request) (int, any) {
	return s.idempotent(r, func(key *clientKey, declared declaration) (int, any) {
		ses := s.session(r.PathValue("id"))
		switch {
		case ses == nil:
			return problem(http.StatusNotFound, lambae.TypeNotFound, "no session "+r.PathValue("id"))
		case ses.State != admin.StateOpen:
			return problem(http.StatusConflict, lambae.TypeSessionClosed, "session is already "+ses.State)
		case ses.ProfileID != key.ProfileID:
			return problem(http.StatusForbidden, lambae.TypeProfileMismatch, "the client key belongs to another profile")
		}
		if status, refusal := check(ses.profile, declared); status != 0 {
			return status, refusal
		}
		return s.enter(ses, key, declared, lambae.EventSessionJoin)
	})
}

func (s *Server) idempotent(r *http.Request, handle func(*clientKey, declaration) (int, any)) (int, any) {
	secret, refusal := bearer(r, "client")
	at := slices.IndexFunc(s.keys, func(key *clientKey) bool { return key.secret == secret })
	if at < 0 && refusal == "" {
		refusal = "invalid client key"
	}
	if refusal != "" {
		return problem(http.StatusUnauthorized, lambae.TypeUnauthorized, refusal)
	}
	var body bytes.Buffer
	var declared declaration
	if _, err := body.ReadFrom(r.Body); err != nil || json.Unmarshal(body.Bytes(), &declared) != nil {
		return problem(http.StatusBadRequest, lambae.TypeBadRequest, "the body is not a JSON object of the right types")
	}
	name := r.Header.Get("Idempotency-Key")
	if name == "" {
		return handle(s.keys[at], declared)
	}
	name = r.URL.Path + " " + secret + " " + name
	if first := s.answers[name]; first != nil {
		if !bytes.Equal(first.body, body.Bytes()) {
			return problem(http.StatusConflict, lambae.TypeIdempotencyMismatch, "the Idempotency-Key was used with another body")
		}
		return first.status, first.answer
	}
	status, answer := handle(s.keys[at], declared)
	s.answers[name] = &stored{body: body.Bytes(), status: status, answer: answer}
	return status, answer
}

func check(profile *admin.Profile, declared declaration) (int, any) {
	if profile == nil {
		return problem(http.StatusUnprocessableEntity, lambae.TypeProfileUnavailable, "the profile was deleted")
	}
	for _, tool := range declared.Tools {
		if !slices.Contains(profile.AllowedTools, tool.Name) {
			return problem(http.StatusForbidden, lambae.TypeToolNotAllowed, `tool "`+tool.Name+`" is not in the profile's allowlist`)
		}
	}
	return 0, nil
}

func (s *Server) enter(ses *session, key *clientKey, declared declaration, event lambae.EventType) (int, any) {
	secret := s.newSecret("bae_ses_")
	ses.keys[secret] = key
	ses.declared[key.ID] = declared
	var subagentTools []lambae.Tool
	for _, tool := range declared.SubagentTools {
		subagentTools = append(subagentTools, tool.Tool)
	}
	s.record(ses, key.ID, event, map[string]any{
		"client_version": declared.ClientVersion, "tools": names(declared.Tools),
		"sandbox_tools": names(declared.SandboxTools), "subagent_tools": names(subagentTools),
	})
	var profile lambae.Profile
	profile.ID, profile.Name = ses.profile.ID, ses.profile.Name
	profile.AllowedTools, profile.MCPServers = ses.profile.AllowedTools, ses.profile.MCPServers
	profile.Provider.Provider, profile.Provider.Model = "echo", "mock"
	return http.StatusCreated, map[string]any{"session_id": ses.ID, "session_key": secret, "profile": profile}
}

// record appends an event and wakes whoever waits.
func (s *Server) record(ses *session, keyID string, kind lambae.EventType, payload any) lambae.Event {
	encoded, err := json.Marshal(payload)
	if err != nil {
		panic(err) // a bug in this package
	}
	event := lambae.Event{
		ID: s.newID("evt_"), SessionID: ses.ID, ClientKeyID: keyID, Type: kind, Payload: encoded, CreatedAt: s.now(),
	}
	ses.events = append(ses.events, event)
	s.changed.Broadcast()
	return event
}

func (s *Server) session(id string) *session {
	for _, ses := range s.sessions {
		if ses.ID == id {
			return ses
		}
	}
	return nil
}

// keyed finds the session of a session key.
func (s *Server) keyed(handle func(*http.Request, *session) (int, any)) func(*http.Request) (int, any) {
	return func(r *http.Request) (int, any) {
		ses, _, refusal := s.authenticate(r)
		if refusal != "" {
			return problem(http.StatusUnauthorized, lambae.TypeUnauthorized, refusal)
		}
		return handle(r, ses)
	}
}

func (s *Server) authenticate(r *http.Request) (ses *session, key *clientKey, refusal string) {
	secret, refusal := bearer(r, "session")
	if refusal != "" {
		return nil, nil, refusal
	}
	ses = s.session(r.PathValue("id"))
	if ses == nil || ses.keys[secret] == nil || !slices.Contains(s.keys, ses.keys[secret]) {
		return nil, nil, "invalid session key"
	}
	return ses, ses.keys[secret], ""
}

func (s *Server) closeSession(r *http.Request, ses *session) (int, any) {
	if ses.State != admin.StateOpen {
		return problem(http.StatusConflict, lambae.TypeSessionClosed, "session is already "+ses.State)
	}
	_, key, _ := s.authenticate(r)
	s.end(ses, key.ID, "client_close")
	return http.StatusOK, map[string]string{"session_id": ses.ID, "state": ses.State}
}

func (s *Server) end(ses *session, keyID, reason string) {
	now := s.now()
	ses.State, ses.ClosedAt = admin.StateClosed, &now
	s.record(ses, keyID, lambae.EventSessionClose, lambae.ClosePayload{Reason: reason})
	if ses.sandbox != nil {
		s.stopSandbox(ses, keyID, "session_close")
	}
}

func names(tools []lambae.Tool) []string {
	names := make([]string, 0, len(tools))
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return names
}
