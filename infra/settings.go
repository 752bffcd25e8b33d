package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/constructs-go/constructs/v10"
)

// Architectures of functions.
const (
	ARM64  = "arm64"
	X86_64 = "x86_64"
)

// Settings of a deployment, each from the context value "lambae:" + its key.
type Settings struct {
	Stage        string // stage: name of this deployment, part of the stack's name
	Architecture string // architecture: arm64 or x86_64
	Memory       int    // memory: MB of the client function, and with it its CPU
	LogRetention int    // log-retention: days
	LogLevel     string // log-level: debug, info, warn or error
	// Retain keeps the table when the stack is destroyed, and backs it up
	// (removal: retain or destroy).
	Retain bool
	// DeletionProtection makes DynamoDB refuse to delete the table at all
	// (deletion-protection: true or false; true where Retain is).
	DeletionProtection bool
	Config             string // config: path of the bae-config.toml to deploy
	// Emulator is the address of an AWS emulator that the stack goes into; "" for
	// AWS (emulator). WebSockets are served there, and the caller's credentials
	// deploy, since emulators lack parts of the roles that `cdk bootstrap` makes.
	Emulator   string
	AlarmTopic string   // alarm-topic: ARN of an SNS topic that hears of alarms; "" for none
	SecretKeys []string // secret-keys: ARNs of the KMS keys that secrets of the configuration are encrypted with, commas between

	SandboxImages  []string // sandbox-images: images that sandboxes may run, commas between; none for no sandboxes
	SandboxCPU     int      // sandbox-cpu: CPU units, 1024 for one
	SandboxMemory  int      // sandbox-memory: MB
	SandboxSpot    bool     // sandbox-spot: true for spare capacity, which AWS may take back
	SandboxVPC     string   // sandbox-vpc: id of a network to use instead of one of its own,
	SandboxSubnets []string // sandbox-subnets: and its subnets that lead out, commas between
}

const contextPrefix = "lambae:"

// retentions are the days CloudWatch Logs takes.
var retentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

// ReadSettings reads the context of an app. Its error names each bad value and
// what that takes, and values that nothing reads.
func ReadSettings(node constructs.Node) (Settings, error) {
	given := map[string]any{}
	if all, ok := node.GetAllContext(nil).(map[string]any); ok {
		given = all
	}
	return ParseSettings(given)
}

// ParseSettings is [ReadSettings] of the context as a map.
func ParseSettings(context map[string]any) (Settings, error) {
	r := settingsReader{context: context}
	s := Settings{
		Stage:        r.matching("stage", "dev", `^[a-z][a-z0-9-]{0,29}$`, "a name of lower-case letters, digits and hyphens, up to 30 characters"),
		Architecture: r.oneOf("architecture", ARM64, X86_64),
		Memory:       r.number("memory", 1024, 128, 10240),
		LogRetention: r.number("log-retention", 30, 1, 3653),
		LogLevel:     r.oneOf("log-level", "info", "debug", "warn", "error"),
		Retain:       r.oneOf("removal", "retain", "destroy") == "retain",
		Config:       r.text("config", "bae-config.toml"),
		Emulator:     r.matching("emulator", "", `^(|https?://[A-Za-z0-9.-]+(:\d+)?)$`, "an address like http://127.0.0.1:4566"),
		AlarmTopic:   r.matching("alarm-topic", "", `^(|arn:[^:]+:sns:[^:]+:\d{12}:[^:]+)$`, "the ARN of an SNS topic"),
	}
	s.DeletionProtection = r.oneOf("deletion-protection", strconv.FormatBool(s.Retain), strconv.FormatBool(!s.Retain)) == "true"
	s.SecretKeys = r.list("secret-keys", `^arn:[^:]+:kms:[^:]+:\d{12}:key/[A-Za-z0-9-]+$`, "ARNs of KMS keys (arn:…:key/…), with commas between them")
	r.sandboxes(&s)
	if len(r.errs) == 0 && !slices.Contains(retentions, s.LogRetention) {
		r.refuse("log-retention", strconv.Itoa(s.LogRetention), "a number of days that CloudWatch Logs has: "+strings.Trim(fmt.Sprint(retentions), "[]"))
	}
	if s.DeletionProtection && !s.Retain {
		r.errs = append(r.errs, errors.New("lambae:deletion-protection=true with lambae:removal=destroy: DynamoDB would refuse what the stack is told to do; set one of them differently"))
	}
	r.unknown()
	return s, errors.Join(r.errs...)
}

// fargateMemory is the memory that Fargate has for a number of CPU units, in MB:
// least, most, and the steps between.
var fargateMemory = map[int][3]int{
	256: {512, 2048, 512}, 512: {1024, 4096, 1024}, 1024: {2048, 8192, 1024}, 2048: {4096, 16384, 1024},
	4096: {8192, 30720, 1024}, 8192: {16384, 61440, 4096}, 16384: {32768, 122880, 8192},
}

// sandboxes reads what begins with sandbox-.
func (r *settingsReader) sandboxes(s *Settings) {
	s.SandboxImages = r.list("sandbox-images", `^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`, "names of images, with commas between them")
	s.SandboxCPU = r.number("sandbox-cpu", 1024, 256, 16384)
	s.SandboxMemory = r.number("sandbox-memory", 2048, 512, 122880)
	s.SandboxSpot = r.oneOf("sandbox-spot", "false", "true") == "true"
	s.SandboxVPC = r.matching("sandbox-vpc", "", `^(|vpc-[0-9a-f]+)$`, "the id of a VPC, like vpc-0123abcd")
	s.SandboxSubnets = r.list("sandbox-subnets", `^subnet-[0-9a-f]+$`, "ids of subnets, like subnet-0123abcd, with commas between them")
	if (s.SandboxVPC == "") != (len(s.SandboxSubnets) == 0) {
		r.errs = append(r.errs, errors.New("lambae:sandbox-vpc and lambae:sandbox-subnets go together: give both, or none for a network of its own"))
	}
	if len(s.SandboxImages) == 0 && s.SandboxVPC != "" {
		r.errs = append(r.errs, errors.New("lambae:sandbox-vpc without lambae:sandbox-images: name the images that sandboxes may run"))
	}
	slices.Sort(s.SandboxImages)
	s.SandboxImages = slices.Compact(s.SandboxImages)
	has, ok := fargateMemory[s.SandboxCPU]
	switch {
	case !ok:
		r.refuse("sandbox-cpu", strconv.Itoa(s.SandboxCPU), "CPU units that Fargate has: 256, 512, 1024, 2048, 4096, 8192, 16384")
	case s.SandboxMemory < has[0] || s.SandboxMemory > has[1] || s.SandboxMemory%has[2] != 0:
		r.refuse("sandbox-memory", strconv.Itoa(s.SandboxMemory), fmt.Sprintf("for %d CPU units, %d to %d MB in steps of %d", s.SandboxCPU, has[0], has[1], has[2]))
	}
}

// settingsReader collects what is wrong while it reads.
type settingsReader struct {
	context map[string]any
	known   []string
	errs    []error
}

func (r *settingsReader) text(key, preset string) string {
	r.known = append(r.known, key)
	v, ok := r.context[contextPrefix+key]
	if !ok || v == "" {
		return preset
	}
	return fmt.Sprint(v)
}

func (r *settingsReader) refuse(key, value, takes string) {
	r.errs = append(r.errs, fmt.Errorf("%s%s=%q: it takes %s", contextPrefix, key, value, takes))
}

func (r *settingsReader) matching(key, preset, pattern, takes string) string {
	v := r.text(key, preset)
	if !regexp.MustCompile(pattern).MatchString(v) {
		r.refuse(key, v, takes)
	}
	return v
}

func (r *settingsReader) list(key, pattern, takes string) []string {
	var items []string
	for item := range strings.FieldsFuncSeq(r.text(key, ""), func(c rune) bool { return c == ',' || c == ' ' }) {
		if !regexp.MustCompile(pattern).MatchString(item) {
			r.refuse(key, item, takes)
		}
		items = append(items, item)
	}
	return items
}

func (r *settingsReader) oneOf(key, preset string, others ...string) string {
	v := r.text(key, preset)
	if all := append([]string{preset}, others...); !slices.Contains(all, v) {
		r.refuse(key, v, strings.Join(all, " or "))
	}
	return v
}

func (r *settingsReader) number(key string, preset, least, most int) int {
	v := r.text(key, strconv.Itoa(preset))
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		r.refuse(key, v, fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n
}

// unknown refuses what nothing reads: a misspelt setting would otherwise be a
// deployment that differs from what was asked for.
func (r *settingsReader) unknown() {
	var unread []string
	for key := range r.context {
		if name, ours := strings.CutPrefix(key, contextPrefix); ours && !slices.Contains(r.known, name) {
			unread = append(unread, key)
		}
	}
	slices.Sort(unread)
	slices.Sort(r.known)
	for _, key := range unread {
		r.errs = append(r.errs, fmt.Errorf("%s: there is no such setting; there are %s", key, strings.Join(r.known, ", ")))
	}
}
