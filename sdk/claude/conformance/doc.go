// Package conformance holds the tests of package claude against the real
// claude binary and the JavaScript SDK. They need npm packages and a build tag:
//
//	make test-claude
//
// Everything runs offline: a mock of the Messages API plays the model.
package conformance
