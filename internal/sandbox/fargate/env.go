package fargate

import (
	"fmt"
	"strings"
)

// Variables of the environment that a deployed server's driver is made from.
const (
	ClusterVariable        = "BAE_SANDBOX_CLUSTER"
	FamilyVariable         = "BAE_SANDBOX_FAMILY"
	SubnetsVariable        = "BAE_SANDBOX_SUBNETS"         // with commas
	SecurityGroupsVariable = "BAE_SANDBOX_SECURITY_GROUPS" // with commas
	SpotVariable           = "BAE_SANDBOX_SPOT"            // "true" for spare capacity
	AgentVariable          = "BAE_SANDBOX_AGENT"           // s3://bucket/key of sandboxd, see [FromS3]
	URLVariable            = "BAE_SANDBOX_URL"             // of the client API; may be empty, see [Options]
)

// FromEnv reads options through lookup. Its error names the variable that is
// missing.
func FromEnv(lookup func(string) (string, bool)) (Options, error) {
	var missing []string
	get := func(name string) string {
		v, _ := lookup(name)
		if v == "" {
			missing = append(missing, name)
		}
		return v
	}
	list := func(name string) []string {
		return strings.FieldsFunc(get(name), func(r rune) bool { return r == ',' || r == ' ' })
	}
	o := Options{Cluster: get(ClusterVariable), Family: get(FamilyVariable), Subnets: list(SubnetsVariable), SecurityGroups: list(SecurityGroupsVariable)}
	if len(missing) > 0 {
		return o, fmt.Errorf("BAE_SANDBOX_DRIVER=fargate needs %s", strings.Join(missing, ", "))
	}
	spot, _ := lookup(SpotVariable)
	o.Spot = spot == "true"
	o.URL, _ = lookup(URLVariable)
	return o, nil
}
