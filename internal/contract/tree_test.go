package contract

import (
	"fmt"
	"strings"
	"testing"
)

func TestDecodeExecute_MalformedJSONIsOneFault(t *testing.T) {
	for name, body := range map[string]string{
		"empty":               ``,
		"blank":               " \n\t",
		"cut short":           `{"sessionId":"s1","mode":"x"`,
		"cut in a string":     `{"sessionId":"s`,
		"trailing data":       userTurn(`"instruction":"hi"`) + `{}`,
		"trailing garbage":    userTurn(`"instruction":"hi"`) + ` x`,
		"trailing comma":      userTurn(`"instruction":"hi",`),
		"comment":             userTurn(`"instruction":"hi"/* */`),
		"single quotes":       `{'sessionId':'s1'}`,
		"name without quotes": `{sessionId:"s1"}`,
		"raw control":         userTurn("\"instruction\":\"a\x01b\""),
		"raw NUL":             userTurn("\"instruction\":\"a\x00b\""),
		"invalid UTF-8":       userTurn("\"instruction\":\"\xff\""),
		"overlong UTF-8":      userTurn("\"instruction\":\"\xc0\xae\""),
		"lone high surrogate": userTurn(`"instruction":"\ud800"`),
		"lone low surrogate":  userTurn(`"instruction":"\udc00"`),
		"swapped surrogates":  userTurn(`"instruction":"\udc00\ud800"`),
		"surrogate in a name": userTurn(`"\ud800":1`),
		"byte order mark":     "\ufeff" + userTurn(`"instruction":"hi"`),
		"NaN":                 userTurn(`"instruction":NaN`),
		"leading zero":        userTurn(`"instruction":01`),
		"after other faults":  `{"sessionId":"s1","sessionId":"s1","mode":1,]`,
	} {
		t.Run(name, func(t *testing.T) { refuse(t, body, " APTIX-json") })
	}
}

func TestDecodeExecute_SyntaxFaultNamesTheOffset(t *testing.T) {
	_, err := DecodeExecute([]byte(`{"sessionId":"s1" x`), Limits{})
	if got := violationsOf(err)[0].Message; !strings.Contains(got, "at byte 18") {
		t.Errorf("message = %q, want the offset", got)
	}
}

func TestDecodeExecute_TheSameMemberTwice(t *testing.T) {
	for _, tc := range []struct {
		body string
		want []string
	}{
		{userTurn(`"instruction":"a","instruction":"a"`), []string{"/instruction APTIX-json"}},
		{userTurn(`"instruction":"a","instruct\u0069on":"b"`), []string{"/instruction APTIX-json"}},
		{userTurn(`"instruction":"a","Instruction":"a"`), []string{"/Instruction APTIX-json"}},
		{userTurn(`"Instruction":"a","instruction":null`), []string{"/instruction APTIX-json"}},
		{userTurn(`"instruction":"a","mode":null,"Mode":null`), []string{"/Mode APTIX-json"}},
		{userTurn(`"instruction":"a","stream":true,"Stream":true,"stream":false,"TurnId":"t1"`),
			[]string{"/stream APTIX-json", "/TurnId APTIX-json", "/Stream APTIX-json"}},
		{artifact(`"relativePath":"a","RelativePath":"b","fileName":"a","contents":"","origin":"ide","origin":"user"`),
			[]string{"/inputArtifacts/0/origin APTIX-json", "/inputArtifacts/0/RelativePath APTIX-json"}},
		{userTurn(`"clipboardImages":[{"id":"i","Id":"j","mimeType":"image/png","dataBase64":"AAAA"}]`),
			[]string{"/clipboardImages/0/Id APTIX-json"}},
		{userTurn(`"instruction":"a","ragScope":{"conditions":[{"key":"a","Key":"b","operator":"==","values":["x"]}]}`),
			[]string{"/ragScope/conditions/0/Key APTIX-json"}},
		{`{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"c","executionMs":1,"ExecutionMs":1,"resultJson":"1","ResultJson":"2"}]}`,
			[]string{"/toolResults/0/ResultJson APTIX-json", "/toolResults/0/ExecutionMs APTIX-json"}},
		{continuation(`"ToolResults":[]`), []string{"/ToolResults APTIX-json"}},
	} {
		refuse(t, tc.body, tc.want...)
	}
}

func TestDecodeExecute_UnknownMembersAtEveryLevel(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{userTurn(`"instruction":"a","x":1`), "/x"},
		{userTurn(`"instruction":"a","x":null`), "/x"},
		{userTurn(`"instruction":"a","":1`), "/"},
		{userTurn(`"instruction":"a","a/b~c":1`), "/a~1b~0c"},
		{artifact(`"relativePath":"a","fileName":"a","contents":"","origin":"ide","sha256":"00"`), "/inputArtifacts/0/sha256"},
		{userTurn(`"clipboardImages":[{"id":"i","mimeType":"image/png","dataBase64":"AAAA","path":"a.png"}]`), "/clipboardImages/0/path"},
		{userTurn(`"instruction":"a","ragScope":{"conditions":[],"any":true}`), "/ragScope/any"},
		{userTurn(`"instruction":"a","RagScope":{"Conditions":[{"key":"a","operator":"==","values":["x"],"or":1}]}`), "/RagScope/Conditions/0/or"},
		{continuation(`"x":1`), "/x"},
		{`{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"c","executionMs":1,"resultJson":"1","name":"f"}]}`, "/toolResults/0/name"},
	} {
		refuse(t, tc.body, tc.want+" APTIX-unknown-member")
	}
}

func TestDecodeExecute_NoOtherCasing(t *testing.T) {
	for _, name := range []string{
		"INSTRUCTION", "inStruction", "session_id", "SessionID", "sessionID", "sessionid", "RAGScope", "ragscope", "MODE",
		"ſessionId", "ſtream", "worKspaceId", "ToolreSults", // long s and the Kelvin sign fold to s and k
	} {
		refuse(t, userTurn(`"instruction":"a","`+name+`":"x"`), "/"+name+" APTIX-unknown-member")
	}
	_, err := DecodeExecute([]byte(userTurn(`"instruction":"a","sessionID":"x"`)), Limits{})
	if got, want := violationsOf(err)[0].Message, "it is spelled sessionId"; !strings.Contains(got, want) {
		t.Errorf("message = %q, want it to say %q", got, want)
	}
	_, err = DecodeExecute([]byte(userTurn(`"instruction":"a","MODE":"x"`)), Limits{})
	if got := violationsOf(err)[0].Message; strings.Contains(got, "spelled") {
		t.Errorf("message = %q, which proposes a forbidden member", got)
	}
}

func TestDecodeExecute_NULAndNumbersOutOfRange(t *testing.T) {
	refuse(t, userTurn(`"instruction":"a\u0000b","workspaceId":"\u0000"`), "/instruction APTIX-json", "/workspaceId APTIX-json")
	refuse(t, userTurn(`"instruction":"a","solutionContextText":"\u0000","stream":1e400`),
		"/solutionContextText APTIX-json", "/stream APTIX-json", "/stream AGN034-4.7-a")
	refuse(t, userTurn(`"instruction":"a","x\u0000":1`), "/x\x00 APTIX-json", "/x\x00 APTIX-unknown-member")
}

func TestDecodeExecute_TreeLimits(t *testing.T) {
	nested := func(n int) string {
		return userTurn(`"instruction":"a","x":` + strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	refuse(t, nested(63), "/x APTIX-unknown-member")
	refuse(t, nested(64), "/x"+strings.Repeat("/0", 63)+" APTIX-limits")
	refuse(t, strings.Repeat("[", 1_000_000), strings.Repeat("/0", 64)+" APTIX-limits")
	refuseWithin(t, nested(2), Limits{Depth: 2}, "/x/0 APTIX-limits")
	if _, err := DecodeSetTools([]byte(`{"tools":[`+strings.Repeat("{},[],", 100)+`0]}`), Limits{}); err != nil {
		t.Errorf("200 values side by side: %v", err)
	}

	tools := func(members int) string { // with "tools" itself
		var b strings.Builder
		for i := range members - 1 {
			fmt.Fprintf(&b, `,"k%d":0`, i)
		}
		return `{"tools":[{` + strings.TrimPrefix(b.String(), ",") + `}]}`
	}
	if _, err := DecodeSetTools([]byte(tools(10_000)), Limits{}); err != nil {
		t.Errorf("10,000 members: %v", err)
	}
	_, err := DecodeSetTools([]byte(tools(10_001)), Limits{})
	checkFaults(t, err, "/tools/0/k9999 APTIX-limits")
	_, err = DecodeSetTools([]byte(`{"tools":[`+strings.Repeat("0,", 10_000)+`0]}`), Limits{})
	checkFaults(t, err, "/tools/9999 APTIX-limits")
	refuseWithin(t, userTurn(`"instruction":"a"`), Limits{Keys: 2}, "/instruction APTIX-limits")
}

func TestDecodeExecute_FaultsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,"x%d":0`, i)
	}
	_, err := DecodeExecute([]byte(userTurn(`"instruction":"a"`+b.String())), Limits{})
	if got := len(violationsOf(err)); got != maxViolations {
		t.Errorf("%d violations, want %d", got, maxViolations)
	}
	if want := "in 5000 places, of which the first 1000"; !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want it to say %q", err, want)
	}
	_, err = DecodeExecute([]byte(userTurn(`"instruction":"a","`+strings.Repeat("é", 10_000)+`":0`)), Limits{})
	if got := violationsOf(err)[0].Message; len(got) > 200 {
		t.Errorf("the message repeats %d bytes of the client's", len(got))
	}

	// A long name is repeated in the pointer of every fault below it.
	long := `{"` + strings.Repeat("x", maxPointerBytes/10) + `":{"a":0` + strings.Repeat(`,"a":0`, 5000) + `}}`
	_, err = DecodeExecute([]byte(long), Limits{})
	if got := len(violationsOf(err)); got != 10 {
		t.Errorf("%d violations with long pointers, want 10", got)
	}
}
