// Package mcptest holds MCP servers for tests, made with the official SDK: one that works,
// and others that do what a server should not. They run as a process of their own, over
// stdio, or behind HTTP. No turn meets them outside of tests.
package mcptest
