// Package lambae is a client of lambae: durable sessions with an AI agent that
// many clients can drive or watch at once.
//
// A [Client] opens or joins a [Session] with a client key. The session has a
// key of its own, shown once: keep [Session.Key] to come back later through
// [Client.Session].
//
//	client, err := lambae.New("http://127.0.0.1:8080", os.Getenv("BAE_CLIENT_KEY"), nil)
//	session, err := client.Open(ctx, nil)
//	result, err := session.Run(ctx, lambae.UserMessage("Hello!"), nil)
//	fmt.Println(result.Text())
//
// There are three ways to use a session, from high to low:
//
//   - [Session.Run] takes a message to its final answer, running the client's
//     own tools ([ClientTool]) on the way.
//   - [Session.Send] sends one message and yields what happens, piece by piece.
//   - [Session.Subscribe] follows what everybody does in the session. It lives
//     through lost connections without losing or repeating an event.
//
// # Content
//
// Messages are made of [Content]: a string or a list of [Block] values. Both
// keep the JSON they came from, byte for byte, so that what this package does
// not know (new block types, signatures, large numbers) passes through it
// unharmed. The same holds for an [Event] and its payload.
//
// # Errors
//
// A refused request is an [*APIError] (HTTP) or an [*RPCError] (inside the
// stream). A turn whose model providers all failed matches
// [ErrProvidersFailed]. Everything else is a network error or the error of the
// context, wrapped.
//
// # Lost answers
//
// A request whose answer is lost is sent again only if that cannot do a thing
// twice. Opening, joining and sending carry an Idempotency-Key for this, made
// anew for each call and kept through its retries. A server that does not know
// the header needs [Options.NoIdempotencyKeys]: such requests are then never
// repeated when they may have arrived.
package lambae
