package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/lambae/lambae/internal/session"
)

// opened answers an open and a join.
type opened struct {
	SessionID  string        `json:"session_id"`
	SessionKey string        `json:"session_key"`
	Profile    publicProfile `json:"profile"`
}

// publicProfile is all a client is told of a profile (protocol, "REST details").
type publicProfile struct {
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	AllowedTools []string       `json:"allowed_tools"`
	MCPServers   []string       `json:"mcp_servers"`
	Provider     publicProvider `json:"provider"`
}

type publicProvider struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// entering is an open or a join that has passed the checks both share.
type entering struct {
	key     session.ClientKey
	profile session.Profile
	request session.OpenRequest
	answer  opened
	idem    *session.Idem
}

// open serves POST /api/v1/sessions.
func (c *Client) open(w http.ResponseWriter, r *http.Request) {
	key, profile, gone, ok := c.client(w, r)
	if !ok {
		return
	}
	defer c.touch(r.Context(), key.ID)
	body, err := readBody(r)
	if err != nil {
		fail(w, r, c.Logger, err)
		return
	}
	e := entering{key: key, profile: profile}
	if !c.parseOpen(w, r, body, &e) || !e.identify(w, r, body) {
		return
	}
	if done, err := c.openedBefore(r.Context(), &e); done || err != nil {
		c.answerOpen(w, r, &e, err) // whatever has changed since, the first outcome stands
		return
	}
	if c.available(w, r, &e, gone) && c.allowed(w, r, &e) {
		c.answerOpen(w, r, &e, c.create(r.Context(), &e))
	}
}

// identify sets the session key, the id of a session that is to be opened, and
// the Idempotency-Key if there is one: then the other two are derived.
func (e *entering) identify(w http.ResponseWriter, r *http.Request, body []byte) bool {
	name, ok := idempotencyKey(w, r)
	if !ok {
		return false
	}
	opening := e.answer.SessionID == ""
	if opening {
		e.answer.SessionID = session.NewID(session.SessionPrefix)
	}
	e.answer.SessionKey = session.NewSecret(session.SessionSecretPrefix)
	if name == "" {
		return true
	}
	secret, _ := bearer(r)
	e.idem = idemFor(secret, r, name, body)
	e.answer.SessionKey = session.SessionSecretPrefix + derive(secret, r, name, "key")[:48]
	if opening {
		e.answer.SessionID = session.SessionPrefix + derive(secret, r, name, "session")[:32]
	}
	return true
}

// answerOpen ends an open or a join.
func (c *Client) answerOpen(w http.ResponseWriter, r *http.Request, e *entering, err error) {
	if err != nil {
		c.openFailed(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store") // the session key is shown once
	writeJSON(w, http.StatusCreated, e.answer)
}

var errRevokedMeanwhile = errors.New("client key revoked meanwhile")

func (c *Client) openFailed(w http.ResponseWriter, r *http.Request, err error) {
	var closed *session.Refusal
	switch {
	case errors.Is(err, session.ErrIdemMismatch):
		writeProblem(w, idempotencyMismatch(err.Error()))
	case errors.Is(err, errRevokedMeanwhile):
		writeProblem(w, unauthorized("invalid client key"))
	case errors.As(err, &closed):
		writeProblem(w, sessionClosed("session is already "+closed.Status))
	default:
		fail(w, r, c.Logger, err)
	}
}

// create writes the session. What points at it is written before it counts, so
// that a crash in between leaves nothing behind but rows a listing mends.
func (c *Client) create(ctx context.Context, e *entering) error {
	id := e.answer.SessionID
	if err := c.Directory.NoteSession(ctx, e.key.ID, id); err != nil {
		return err
	}
	row := session.SessionRow{ID: id, ProfileID: e.profile.ID, ClientVersion: e.request.ClientVersion, State: session.StateOpen, CreatedAt: c.now()}
	if err := c.Directory.AddSessionRow(ctx, row); err != nil {
		return err
	}
	var tools []session.Tool
	if c.MCP != nil && len(e.profile.MCPServers) > 0 {
		for _, t := range c.MCP.List(ctx, id, e.profile.MCPServers) {
			tools = append(tools, session.Tool{Name: t.Name, Server: t.Server, Advert: advert(t.Name, t.Description, t.InputSchema)})
		}
	}
	log, release, err := c.Store.Open(ctx, session.Opening{
		ID: id, Key: e.key.ID, SecretHash: session.HashSecret(e.answer.SessionKey), ProfileID: e.profile.ID,
		ClientVersion: e.request.ClientVersion, MCP: tools, Declaration: e.request.Declaration(), Idem: e.idem, Shown: e.shown(), Created: row.CreatedAt,
	})
	if session.Exists(err) && e.idem != nil {
		done, err := c.openedBefore(ctx, e)
		if err == nil && !done {
			err = fmt.Errorf("open %s: it exists but cannot be read", id)
		}
		return err
	}
	if err != nil {
		return err
	}
	defer release()
	return c.stillActive(ctx, log, e.key.ID)
}

// openedBefore looks whether an open with the same Idempotency-Key was there first.
func (c *Client) openedBefore(ctx context.Context, e *entering) (bool, error) {
	if e.idem == nil {
		return false, nil
	}
	log, release, err := c.Store.Log(ctx, e.answer.SessionID)
	if errors.Is(err, session.ErrNoSession) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer release()
	done, err := c.repeat(ctx, e, log)
	if err == nil && !done {
		err = session.ErrIdemMismatch
	}
	return done, err
}

// repeat looks whether an earlier call with the same Idempotency-Key entered the
// session, and takes what that was shown of the profile over into the answer.
func (c *Client) repeat(ctx context.Context, e *entering, log *session.Log) (bool, error) {
	if e.idem == nil {
		return false, nil
	}
	shown, spent, err := log.Spent(ctx, e.idem)
	switch {
	case err != nil || !spent:
	case len(shown) == 0: // of an older release: the profile as it is now
		c.describe(e)
	default:
		err = json.Unmarshal(shown, &e.answer.Profile)
	}
	return spent, err
}

// shown is what a repeat needs to know of the answer; nil without an
// Idempotency-Key.
func (e *entering) shown() json.RawMessage {
	if e.idem == nil {
		return nil
	}
	return session.MarshalJSON(e.answer.Profile)
}

// stillActive finishes the revocation of a key that was revoked while its
// session was being written (design-log 5).
func (c *Client) stillActive(ctx context.Context, log *session.Log, key string) error {
	_, err := c.Directory.ClientKey(ctx, key)
	if errors.Is(err, session.ErrKeyRevoked) {
		if err := c.RevokeIn(ctx, log.ID, key); err != nil {
			return err
		}
		return errRevokedMeanwhile
	}
	return err
}

// join serves POST /api/v1/sessions/{id}/join. The order of checks is the seed's.
func (c *Client) join(w http.ResponseWriter, r *http.Request) {
	key, profile, gone, ok := c.client(w, r)
	if !ok {
		return
	}
	defer c.touch(r.Context(), key.ID)
	body, err := readBody(r)
	if err != nil {
		fail(w, r, c.Logger, err)
		return
	}
	e := entering{key: key, profile: profile}
	if !c.parseOpen(w, r, body, &e) {
		return
	}
	id := pathSession(r)
	log, release, err := c.Store.Log(r.Context(), id)
	switch {
	case !session.IsID(session.SessionPrefix, id), errors.Is(err, session.ErrNoSession):
		writeProblem(w, notFound("no session "+id))
		return
	case err != nil:
		fail(w, r, c.Logger, err)
		return
	}
	defer release()
	e.answer.SessionID = id
	if !e.identify(w, r, body) {
		return
	}
	if joined, err := c.repeat(r.Context(), &e, log); joined || err != nil {
		c.answerOpen(w, r, &e, err)
		return
	}
	row := log.Row()
	switch {
	case row.State != session.StateOpen:
		writeProblem(w, sessionClosed("session is already "+row.State))
		return
	case row.ProfileID != key.ProfileID:
		writeProblem(w, profileMismatch("the client key's profile differs from the session's profile"))
		return
	}
	if !c.available(w, r, &e, gone) || !c.allowed(w, r, &e) {
		return
	}
	err = c.Directory.NoteSession(r.Context(), key.ID, id)
	if err == nil {
		err = log.Join(r.Context(), session.Joining{Key: key.ID, SecretHash: session.HashSecret(e.answer.SessionKey),
			ClientVersion: e.request.ClientVersion, Declaration: e.request.Declaration(), Idem: e.idem, Shown: e.shown()})
	}
	if err == nil {
		err = c.stillActive(r.Context(), log, key.ID)
	}
	c.answerOpen(w, r, &e, err)
}

func (c *Client) parseOpen(w http.ResponseWriter, r *http.Request, body []byte, e *entering) bool {
	var err error
	if e.request, err = session.ParseOpenBody(body); err != nil {
		fail(w, r, c.Logger, err)
		return false
	}
	return true
}

// available checks profile and primary provider. Both failures leave an audit
// session in state error.
func (c *Client) available(w http.ResponseWriter, r *http.Request, e *entering, gone bool) bool {
	if gone {
		detail := "the profile was deleted; ask for a key of another profile"
		c.audit(r.Context(), e, fmt.Appendf(nil, `{"reason":"%s","profile_id":%s}`, session.ReasonProfileUnavailable, session.Quote(e.key.ProfileID)))
		writeProblem(w, profileUnavailable(detail))
		return false
	}
	if !c.describe(e) {
		detail := fmt.Sprintf("the profile's primary provider %q is not configured in bae-config.toml", e.profile.PrimaryProvider)
		c.Logger.Error("primary provider unavailable", "profile", e.profile.ID, "provider", e.profile.PrimaryProvider)
		c.audit(r.Context(), e, fmt.Appendf(nil, `{"reason":"%s","provider":%s}`, session.ReasonPrimaryUnavailable, session.Quote(e.profile.PrimaryProvider)))
		writeProblem(w, primaryProviderUnavailable(detail))
		return false
	}
	return true
}

// describe tells the caller of the profile, and reports whether its primary
// provider is there.
func (c *Client) describe(e *entering) (provided bool) {
	e.answer.Profile = publicProfile{ID: e.profile.ID, Name: e.profile.Name, AllowedTools: e.profile.AllowedTools, MCPServers: e.profile.MCPServers}
	p, ok := c.Providers.Lookup(e.profile.PrimaryProvider)
	if ok {
		info := p.Info()
		e.answer.Profile.Provider = publicProvider{info.Kind, info.Model}
	}
	return ok
}

// audit leaves a session in state error that says why an open or join failed.
// That it cannot be written is logged, not answered: the caller's problem is the
// other one.
func (c *Client) audit(ctx context.Context, e *entering, payload json.RawMessage) {
	id := session.NewID(session.SessionPrefix)
	row := session.SessionRow{ID: id, ProfileID: e.key.ProfileID, ClientVersion: e.request.ClientVersion, State: session.StateError, CreatedAt: c.now()}
	err := c.Directory.AddSessionRow(ctx, row)
	if err == nil {
		err = c.Store.Audit(ctx, id, e.key.ID, e.key.ProfileID, e.request.ClientVersion, payload, row.CreatedAt)
	}
	if err == nil {
		err = c.Directory.MarkSessionTerminal(ctx, row, session.StateError, row.CreatedAt)
	}
	if err != nil {
		c.Logger.Error("audit session not written", "session", id, "error", err)
	}
}

func (c *Client) allowed(w http.ResponseWriter, r *http.Request, e *entering) bool {
	err := e.request.Validate(e.profile.AllowedTools)
	if err != nil {
		fail(w, r, c.Logger, err)
	}
	return err == nil
}

func advert(name, description string, schema json.RawMessage) json.RawMessage {
	return session.ClientTool{Name: name, Description: &description, InputSchema: session.CompactJSON(schema)}.Tool().Advert
}

// participants serves GET /api/v1/sessions/{id}/participants.
func (c *Client) participants(w http.ResponseWriter, r *http.Request) {
	who, ok := c.caller(w, r)
	if !ok {
		return
	}
	defer who.release()
	var drivers []string
	who.log.View(func(s *session.State) { drivers = s.Drivers() })
	writeJSON(w, http.StatusOK, struct {
		Drivers []string `json:"drivers"`
	}{drivers})
}

// events serves GET /api/v1/sessions/{id}/events.
func (c *Client) events(w http.ResponseWriter, r *http.Request) {
	who, ok := c.caller(w, r)
	if !ok {
		return
	}
	defer who.release()
	cursor, limit, err := pageQuery(r)
	if err != nil {
		fail(w, r, c.Logger, err)
		return
	}
	events, next, err := who.log.Events(r.Context(), cursor, limit)
	if err != nil {
		fail(w, r, c.Logger, err)
		return
	}
	writeEvents(w, events, next)
}

// writeEvents writes a page of events without copying what they show.
func writeEvents(w http.ResponseWriter, events []session.Rendered, next *string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	put := func(b []byte) { _, _ = w.Write(b) } // a caller that went away reads nothing
	put([]byte(`{"items":[`))
	for i := range events {
		if i > 0 {
			put(comma)
		}
		for _, s := range events[i].Segments {
			put(s)
		}
	}
	put(append(append([]byte(`],"next_cursor":`), session.MarshalJSON(next)...), '}'))
}

// Events is what the admin API shows of a session's log, see [AdminDeps].
func (c *Client) Events(ctx context.Context, id, cursor string, limit int) (items []json.RawMessage, next *string, err error) {
	log, release, err := c.Store.Log(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	events, next, err := log.Events(ctx, cursor, limit)
	for i := range events {
		items = append(items, events[i].JSON())
	}
	return items, next, err
}

// close serves DELETE /api/v1/sessions/{id}.
func (c *Client) close(w http.ResponseWriter, r *http.Request) {
	who, ok := c.caller(w, r)
	if !ok {
		return
	}
	defer who.release()
	ctx := context.WithoutCancel(r.Context())
	ended := c.Ending(ctx, who.log)
	err := who.log.Close(ctx, who.key)
	ended()
	if err != nil {
		c.cleanUp(ctx, who.log) // what a process that died left of the end before
	}
	if c.MCP != nil {
		c.MCP.Release(who.log.ID)
	}
	var before *session.Refusal
	switch {
	case errors.As(err, &before):
		writeProblem(w, sessionClosed(before.Text))
	case err != nil:
		fail(w, r, c.Logger, err)
	default:
		writeJSON(w, http.StatusOK, struct {
			SessionID string `json:"session_id"`
			State     string `json:"state"`
		}{who.log.ID, session.StateClosed})
	}
}

// Ending is called before a chunk that may end the session, and what it returns
// after it: the admin list's row must not say "open" for a session whose process
// died in between, and what runs in its sandbox ends with it.
func (c *Client) Ending(ctx context.Context, log *session.Log) (ended func()) {
	row := log.Row()
	if row.State != session.StateOpen {
		return func() {}
	}
	if err := c.Directory.MarkSessionClosing(ctx, row); err != nil {
		c.Logger.Warn("session row not marked", "session", row.ID, "error", err)
	}
	return func() {
		if now := log.Row(); now.State != session.StateOpen {
			if err := c.Directory.MarkSessionTerminal(ctx, row, now.State, *now.ClosedAt); err != nil {
				c.Logger.Warn("session row not written", "session", row.ID, "error", err)
			}
			c.cleanUp(ctx, log)
		}
	}
}

// cleanUp ends the sandbox and the subagents of a session that has ended. What
// fails is tried again by the sweep.
func (c *Client) cleanUp(ctx context.Context, log *session.Log) {
	if err := c.Engine.Sandboxes.CleanUp(ctx, log); err != nil {
		c.Logger.Warn("session not cleaned up yet", "session", log.ID, "error", err)
	}
}

// RevokeIn applies the revocation of a client key to one session.
func (c *Client) RevokeIn(ctx context.Context, id, key string) error {
	log, release, err := c.Store.Log(ctx, id)
	if errors.Is(err, session.ErrNoSession) {
		return nil // noted, but never opened
	}
	if err != nil {
		return err
	}
	defer release()
	ended := c.Ending(ctx, log)
	closed, err := log.Revoke(ctx, key)
	ended()
	if closed && c.MCP != nil {
		c.MCP.Release(id)
	}
	return err
}

// idempotencyKey reads the Idempotency-Key header, "" when there is none.
func idempotencyKey(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := r.Header.Get("Idempotency-Key")
	if len(name) > 255 {
		writeProblem(w, badRequest("Idempotency-Key must be at most 255 characters"))
		return "", false
	}
	return name, true
}

// derive is the HMAC of the call under the caller's own secret: the same caller
// gets the same back, and nobody else can (design-log 6).
func derive(secret string, r *http.Request, name, what string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s", r.Method, r.URL.Path, name, what)
	return hex.EncodeToString(mac.Sum(nil))
}

func idemFor(secret string, r *http.Request, name string, body []byte) *session.Idem {
	sum := sha256.Sum256(body)
	return &session.Idem{Key: derive(secret, r, name, "idempotency")[:32], Body: hex.EncodeToString(sum[:16])}
}
