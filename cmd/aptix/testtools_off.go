//go:build !failpoints

package main

import "github.com/aptixhq/aptix/internal/tool"

// testTools are the tools of a build that is made to be killed; a real one has none.
func testTools() []tool.Tool { return nil }
