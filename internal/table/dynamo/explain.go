package dynamo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"
)

// explain wraps the error of a request in words that say what to do. op is the
// name of the operation, what says what it was for.
func (t *Table) explain(op, what string, err error) error {
	if errors.Is(err, errClosed) {
		return err
	}
	context := fmt.Sprintf("dynamo: %s in table %s (%s)", what, t.name, t.where)
	var noCredentials *credentialsError
	if errors.As(err, &noCredentials) {
		return fmt.Errorf("%s: no AWS credentials: log in, or set AWS_PROFILE or AWS_ACCESS_KEY_ID: %w", context, err)
	}
	var gaveUp *gaveUpError
	if errors.As(err, &gaveUp) {
		return fmt.Errorf("%s: gave up after %d attempts%s: %w", context, gaveUp.attempts, gaveUp.outcome(op), err)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("%s: %w", context, err)
	}
	switch api.ErrorCode() {
	case "ResourceNotFoundException":
		return fmt.Errorf("%s: there is no such table: deploy the stack there, or set the name and region of one that exists: %w", context, err)
	case "AccessDeniedException":
		return fmt.Errorf("%s: a permission on the table is missing: allow the role %s: %w", context, actions(op), err)
	case "ExpiredTokenException", "ExpiredToken":
		return fmt.Errorf("%s: the AWS credentials have expired: log in again: %w", context, err)
	case "UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException", "IncompleteSignatureException":
		return fmt.Errorf("%s: the AWS credentials are not accepted: check them, and the clock of this machine: %w", context, err)
	}
	return fmt.Errorf("%s: %w", context, err)
}

// actions names what a policy must allow for an operation: its own name, but for
// transactions.
func actions(op string) string {
	if op == "TransactWriteItems" {
		return "dynamodb:PutItem, dynamodb:DeleteItem and dynamodb:ConditionCheckItem"
	}
	return "dynamodb:" + op
}

// outcome says whether what was asked for may have been done all the same.
func (e *gaveUpError) outcome(op string) string {
	if e.unsure && !strings.HasSuffix(op, "GetItem") && op != "Query" {
		return ", the outcome is unknown"
	}
	return ""
}
