// Package runtimetest plays the Lambda Runtime API for a built binary, so that a
// test or a person sees what the real service would: the streamed answer chunk by
// chunk while the invocation still runs, errors in trailers, a process that ends
// or takes too long.
//
//	bin := runtimetest.Build(t, "./functions/client")
//	rt := runtimetest.New(t)
//	rt.Start(bin, "BAE_STORE=embedded:"+path)
//	resp, err := rt.Invoke(event).Response()
//
// A [Runtime] is also an http.RoundTripper, which plays the Function URL before
// the function as well. Freezing between invocations is not played.
package runtimetest
