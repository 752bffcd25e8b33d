// Package conformance holds the tests of package claude against the real
// claude binary and the JavaScript SDK. They need npm packages and a build tag:
//
//	make test-claude
//
// Everything runs offline: a mock of the Messages API plays the model.
//
// What the judges do differently from what is written about them, as far as it
// shows (claude-agent-sdk 0.3.332):
//
//   - SessionStart and SessionEnd hooks of a host are not called over
//     stream-json; a PermissionRequest hook and the permission callback are
//     asked at the same time.
//   - A default permission mode of auto or bypassPermissions is not trusted
//     from local settings either, only acceptEdits is.
//   - The in-memory store does not recognise entries by their uuid, and fails
//     on an entry that is null; ours does, and does not.
//   - Renaming or tagging appends to the middle of a transcript's torn last
//     line; ours starts a new one.
//   - A store that has nothing to resume is no error: claude looks in its own
//     folder and fails there.
//   - A failed resume is a result with an error, and an exit code that the
//     JavaScript SDK does not show after it; ours yields both.
//   - The JavaScript SDK derives the config folder from its own environment,
//     not from the child's HOME, and so drops mirrored entries when they differ.
package conformance
