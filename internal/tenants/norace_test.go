//go:build !race

package tenants

const thorough = true
