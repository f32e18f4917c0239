// Package failpoint names the places in the course of a turn at which a test lets the
// process die. In a normal build Hit is empty and the points cost nothing; with the
// build tag failpoints the environment says which one is deadly.
package failpoint

// Point is a place: just before, or just after, something becomes true.
type Point string

// The points of a turn. "Before" is when nothing of it has happened yet, "after" when
// it has, and nobody was told.
const (
	BeforeAccept   Point = "accept.before" // the commit that makes the turn
	AfterAccept    Point = "accept.after"
	BeforeCommit   Point = "commit.before" // every later commit of its journal
	AfterCommit    Point = "commit.after"
	BeforeAsk      Point = "ask.before" // a request to the model
	AfterAsk       Point = "ask.after"
	BeforeDelta    Point = "delta.before" // a piece of text, shown before it is journalled
	AfterDelta     Point = "delta.after"
	BeforeAnswer   Point = "answer.before" // the model's answer is taken in
	AfterAnswer    Point = "answer.after"
	BeforeTool     Point = "tool.before" // a server tool runs
	AfterTool      Point = "tool.after"
	BeforeResult   Point = "result.before" // its result is taken in
	AfterResult    Point = "result.after"
	BeforeMode     Point = "mode.before" // the session's mode is written
	AfterMode      Point = "mode.after"
	BeforeHandover Point = "handover.before" // the turn is handed to its client
	AfterHandover  Point = "handover.after"
	BeforeContinue Point = "continue.before" // the client's results are taken in
	AfterContinue  Point = "continue.after"
	BeforeDecide   Point = "decide.before" // a decision of the user is taken in
	AfterDecide    Point = "decide.after"
	BeforeResume   Point = "resume.before" // a turn is taken up after a crash
	AfterResume    Point = "resume.after"
	BeforeSettle   Point = "settle.before" // the end
	AfterSettle    Point = "settle.after"
)

// Points returns all of them, in the order in which a turn meets them.
func Points() []Point {
	return []Point{BeforeAccept, AfterAccept, BeforeCommit, AfterCommit, BeforeAsk, AfterAsk, BeforeDelta, AfterDelta,
		BeforeAnswer, AfterAnswer, BeforeTool, AfterTool, BeforeResult, AfterResult, BeforeMode, AfterMode,
		BeforeHandover, AfterHandover, BeforeContinue, AfterContinue, BeforeDecide, AfterDecide,
		BeforeResume, AfterResume, BeforeSettle, AfterSettle}
}

// Env is the variable that arms a point: its name, a colon, and at which passing the
// process dies; "tool.after:3".
const Env = "APTIX_FAILPOINT"
