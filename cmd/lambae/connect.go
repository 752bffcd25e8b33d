package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/lambae/lambae/internal/awsstack"
	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

// Where a server on this machine listens.
const (
	defaultURL      = "http://127.0.0.1:8080"
	defaultAdminURL = "http://127.0.0.1:8081"
)

// clientFlags say which server to talk to, and as whom.
type clientFlags struct{ aws, url, key, keyFile string }

func (f *clientFlags) define(flags *flag.FlagSet) {
	defineAWS(flags, &f.aws)
	flags.StringVar(&f.url, "url", "", "`address` of the server; default $BAE_URL or "+defaultURL)
	flags.StringVar(&f.key, "key", "", "client `key` (bae_…); default $BAE_CLIENT_KEY, or from --key-file")
	flags.StringVar(&f.keyFile, "key-file", "", "`file` with the client key; default .lambae/client.key")
}

// named reports whether the key was given for this very call: then it is the one to
// use, and not what a session is remembered by.
func (f *clientFlags) named() bool { return f.key != "" || f.keyFile != "" }

// client makes a client of the server. A missing key is no error yet: coming
// back to a session needs none.
func (a *app) client(ctx context.Context, f clientFlags) (client *lambae.Client, hasKey bool, err error) {
	key, err := a.clientKey(f)
	if err != nil {
		return nil, false, err
	}
	address := cmp.Or(f.url, a.env("BAE_URL"), defaultURL)
	if f.aws != "" {
		stack, _, err := deployed(ctx, f.aws, f.url)
		if err != nil {
			return nil, false, err
		}
		address = stack.ClientURL
	}
	client, err = lambae.New(address, key, &lambae.Options{UserAgent: userAgent()})
	return client, key != "", err
}

func (a *app) clientKey(f clientFlags) (string, error) {
	if f.key != "" {
		return f.key, nil
	}
	if f.keyFile != "" {
		return readKey(f.keyFile)
	}
	if key := a.env("BAE_CLIENT_KEY"); key != "" {
		return key, nil
	}
	key, err := readKey(a.home().clientKeyFile())
	if missing(err) {
		return "", nil
	}
	return key, err
}

// errNoClientKey says where a key can come from.
func (a *app) errNoClientKey() error {
	return fmt.Errorf("no client key: give one with --key or --key-file, set BAE_CLIENT_KEY, "+
		"or start a server with `make run`, which writes %s", a.home().clientKeyFile())
}

// adminFlags say which admin API to talk to.
type adminFlags struct{ aws, url, keyFile string }

func (f *adminFlags) define(flags *flag.FlagSet) {
	defineAWS(flags, &f.aws)
	flags.StringVar(&f.url, "url", "", "`address` of the admin API; default $BAE_ADMIN_URL or "+defaultAdminURL)
	flags.StringVar(&f.keyFile, "key-file", "", "`file` with the admin key; default $BAE_ADMIN_KEY_FILE or .lambae/admin.key")
}

// defineAWS defines the flag that names a deployment.
func defineAWS(flags *flag.FlagSet, stage *string) {
	flags.StringVar(stage, "aws", "", "the `stage` that `make deploy` made on AWS, in the account of your credentials")
}

// deployed finds a deployment on AWS with the caller's own credentials.
func deployed(ctx context.Context, stage, address string) (*awsstack.Stack, aws.Config, error) {
	if address != "" {
		return nil, aws.Config{}, usagef("--aws and --url exclude each other")
	}
	cfg, err := awsConfig(ctx, "")
	if err != nil {
		return nil, cfg, err
	}
	stack, err := awsstack.Find(ctx, cfg, stage)
	return stack, cfg, err
}

// awsConfig is what every AWS tool would use; region "" is the configured one.
func awsConfig(ctx context.Context, region string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
	if err != nil {
		return cfg, fmt.Errorf("AWS configuration: %w", err)
	}
	return cfg, nil
}

// admin makes a client of the admin API. The one on AWS has no key: requests
// are signed with the caller's AWS credentials.
func (a *app) admin(ctx context.Context, f adminFlags) (*admin.Client, error) {
	if f.aws != "" {
		stack, cfg, err := deployed(ctx, f.aws, f.url)
		if err != nil {
			return nil, err
		}
		return signedAdmin(stack.AdminURL, cfg)
	}
	address := cmp.Or(f.url, a.env("BAE_ADMIN_URL"), defaultAdminURL)
	if region, ok := functionURLRegion(address); ok {
		cfg, err := awsConfig(ctx, region)
		if err != nil {
			return nil, err
		}
		return signedAdmin(address, cfg)
	}
	file := cmp.Or(f.keyFile, a.env("BAE_ADMIN_KEY_FILE"), a.home().adminKeyFile())
	key, err := readKey(file)
	if missing(err) {
		return nil, fmt.Errorf("no admin key in %s: give its file with --key-file or BAE_ADMIN_KEY_FILE, "+
			"or start a server with `make run`, which writes it", file)
	}
	if err != nil {
		return nil, err
	}
	return admin.New(address, key, &admin.Options{UserAgent: userAgent()})
}

func signedAdmin(address string, cfg aws.Config) (*admin.Client, error) {
	return admin.New(address, "", &admin.Options{
		HTTPClient: &http.Client{Transport: awsstack.NewSigner(cfg, http.DefaultTransport)}, UserAgent: userAgent(),
	})
}

// functionURLRegion is the region of a Lambda Function URL: the admin API on
// AWS, where requests are signed.
func functionURLRegion(address string) (region string, ok bool) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", false
	}
	labels := strings.Split(parsed.Hostname(), ".")
	if len(labels) != 5 || labels[1] != "lambda-url" || labels[3] != "on" || labels[4] != "aws" {
		return "", false
	}
	return labels[2], true
}

func userAgent() string { return "lambae/" + version() }

// explain says what went wrong and, where there is one, the way out.
func explain(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Sprintf("no server at %s (%v); start one with `make run`, or give its address with --url", serverOf(err), op.Err)
	}
	if problem, ok := errors.AsType[*lambae.APIError](err); ok && problem.Type != "" && problem.Detail != "" {
		said := fmt.Sprintf("%s (%d %s)", problem.Detail, problem.Status, problem.Type)
		if problem.Type == lambae.TypeUnauthorized {
			said += "; is it the key of this server, and not revoked?"
		}
		return said
	}
	if refused, ok := errors.AsType[*lambae.RPCError](err); ok {
		return refused.Message
	}
	if errors.Is(err, os.ErrPermission) {
		return err.Error() + "; keys are readable by their owner only"
	}
	return err.Error()
}

// serverOf is the address that a failed request went to.
func serverOf(err error) string {
	failed, ok := errors.AsType[*url.Error](err)
	if !ok {
		return "the given address"
	}
	target, err := url.Parse(failed.URL)
	if err != nil {
		return failed.URL
	}
	return target.Scheme + "://" + target.Host
}
