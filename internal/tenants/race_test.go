//go:build race

package tenants

// thorough is false under the race detector, which would take minutes: there one tenant
// asks about one other.
const thorough = false
