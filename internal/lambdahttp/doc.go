// Package lambdahttp serves an http.Handler as a Lambda function behind a
// Function URL in RESPONSE_STREAM mode, on top of aws-lambda-go's lambdaurl.
//
// The handler sees a request as from net/http: the context's deadline is the
// invocation's, RemoteAddr is the caller, cookies are a header, the body has its
// length and is decoded. What it writes leaves at once. What lambdaurl would do
// otherwise is put right here: a panic does not end the process, an early
// informational status is not the final one, and headers that belong to a
// connection stay off the wire.
//
// A client that goes away is not noticed on Lambda; the invocation runs on.
//
// Binaries need the build tag lambda.norpc and the runtime provided.al2023.
package lambdahttp
