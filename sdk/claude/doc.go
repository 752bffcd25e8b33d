// Package claude drives Claude Code from Go: it is the programmatic SDK of
// Claude Code in Go's own shape, with the same capabilities, the same files and
// the same wire as the JavaScript one.
//
// It needs the claude executable (npm install -g @anthropic-ai/claude-code) and
// nothing else. A one-shot query is
//
//	result, err := claude.Query(ctx, claude.Text("What does this repository do?"), nil).Result()
//
// and a loop over everything that happens on the way is
//
//	for msg, err := range claude.Query(ctx, claude.Text("Fix the tests"), opts).Messages() {
//		if err != nil {
//			return err
//		}
//		if m, ok := msg.(*claude.AssistantMessage); ok {
//			fmt.Print(m.Text())
//		}
//	}
//
// Leaving the loop, closing the stream, or cancelling the context ends the
// process and everything it started; errors of a cancelled context match
// [ErrAborted]. Start with [Conversation] to send more messages as you go.
//
// # Callbacks
//
// [Options] take Go functions for what Claude Code asks its host: CanUseTool
// decides about tool calls, Hooks see and shape events, and MCPServers may hold
// servers whose tools are Go functions, made with [Tool] and [NewMCPServer].
// They run on goroutines of their own and end with their context.
//
// # Sessions
//
// Claude Code keeps every session as a file of JSON lines. [ListSessions],
// [GetSessionMessages], [ForkSession] and the others read and change these
// files, or a [SessionStore] instead: with one in Options, a query copies its
// transcript there, and another machine can resume it. [InMemoryStore],
// [FileStore] and package dynamostore are stores; package storetest checks
// others.
//
// No store keeps its entries behind lambae's HTTP API, because nothing there
// could hold them: a client sends messages, which a model then answers, and the
// server alone writes the log that it reads back. What stands in for one is the
// storage that lambae itself runs on: package dynamostore beside a deployment,
// in a table of its own in the same account, and [FileStore] on a laptop.
//
// # From JavaScript to Go
//
//	JavaScript                          Go
//	query({prompt, options})            Query(ctx, prompt, *Options) *Stream
//	prompt: string                      Text
//	prompt: AsyncIterable               Sequence, Conversation
//	for await (… of query)              Stream.Messages, Turn, Next, Result
//	options.abortController, signal     the context
//	options.*                           the field of the same name in Options, or ExtraArgs
//	options.cwd                         Options.Dir
//	options.continue, persistSession    Options.Continue, EphemeralSession
//	options.appendSystemPrompt          SystemPrompt{Preset: true, Append: …}
//	options.loadTimeoutMs               Options.LoadTimeout
//	options.sessionStoreFlush           Options.EagerFlush
//	options.spawnClaudeCodeProcess      Options.Launch
//	Query.interrupt, setModel, …        Stream.Interrupt, SetModel, …; Control for any other
//	Query.streamInput                   Stream.Send, CloseInput
//	Query.initializationResult          Stream.Initialization
//	Query.close                         Stream.Close
//	SDKMessage, SDKUserMessage          Message and its types, UserMessage
//	CanUseTool, PermissionResult        CanUseTool, PermissionResult, Allow, Deny
//	HookCallback, HookCallbackMatcher   HookFunc, HookMatcher
//	startup, WarmQuery                  Startup, Warm
//	WarmQuery.query, close              Warm.Query, Close
//	resolveSettings, ResolvedSettings   ResolveSettings, ResolvedSettings
//	filterEscalatingDefaultMode         FilterEscalatingDefaultMode
//	createSdkMcpServer, tool            NewMCPServer, Tool; WrapMCPServer
//	listSessions, getSessionInfo        ListSessions, GetSessionInfo
//	getSessionMessages                  GetSessionMessages
//	renameSession, tagSession           RenameSession, TagSession (nil clears)
//	deleteSession, forkSession          DeleteSession, ForkSession
//	importSessionToStore                ImportSessionToStore
//	foldSessionSummary                  FoldSessionSummary
//	listSubagents, getSubagentMessages  ListSubagents, GetSubagentMessages
//	SessionStore                        SessionStore
//	SessionStore.listSessions?          SessionLister
//	SessionStore.listSessionSummaries?  SummaryLister
//	SessionStore.delete?                SessionDeleter
//	SessionStore.listSubkeys?           SubkeyLister
//	InMemorySessionStore                InMemoryStore
//	TranscriptMirrorBatcher             part of Query; failures are SystemMessage.MirrorError
//	parseDirectConnectUrl               ParseDirectConnectURL
//	DirectConnectTransport              DirectConnect, DirectConnection, QueryOver
//	DirectConnectError                  DirectConnectError
//	Transport                           Transport
//	HOOK_EVENTS, EXIT_REASONS           HookEvents, ExitReasons
//	SYSTEM_PROMPT_DYNAMIC_BOUNDARY      SystemPromptDynamicBoundary
//	AbortError                          ErrAborted
//
// Where the JavaScript SDK throws for a session that does not exist, or returns
// undefined, there is an error that matches [ErrSessionNotFound]; lists are
// empty in both.
package claude
