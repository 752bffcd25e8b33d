// Package config reads what an operator sets: the registry file
// bae-config.toml ([Load]), the BAE_* environment ([ParseEnv]), and the secrets
// that strings of the file refer to ([Resolver]).
//
// The file and the environment are checked whole at start, and every problem is
// told at once with the entry it is about and what to do. Secrets are the
// opposite: a reference such as ${ANTHROPIC_API_KEY} stays a reference until the
// moment of use, so that nothing here holds, logs or returns a value.
//
// The package imports nothing else of this module. The sources of secrets that
// need the AWS SDK are in package config/awssecrets, linked only where used.
package config
