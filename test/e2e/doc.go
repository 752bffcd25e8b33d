// Package e2e tests a deployed stack from outside, as its users would: through
// its addresses, with signed requests and keys. `make local-test` runs it against
// an emulator; LAMBAE_E2E_STAGE names the stage. Without it the tests are
// skipped, since there is nothing to test.
package e2e
