package tenants

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Two organisations that chose the same names for everything, down to the idempotency
// keys: each sees its own, what is remembered in memory and on disk is its own, and what
// one erases stays with the other (reliability S-8).
func TestTwins(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s journal) {
		r := newRig(t, s)
		one, other := r.settle("alpha", "alpha"), r.settle("bravo", "alpha")
		// Their transcripts are in memory by now; both go on.
		for _, org := range []string{"alpha", "bravo", "alpha"} {
			x := one.things[0]
			r.want(org, request{"POST", "/v1/agent/execute", encode(map[string]string{
				"sessionId": x.session, "turnId": "again-" + org, "instruction": "And what else of " + canary(org) + "?"}), nil}, 200)
		}
		r.provider.letGo()
		for _, n := range []tenant{one, other} { // to the end of the turn that was running
			i := slices.IndexFunc(n.things, func(x thing) bool { return x.state == "running" })
			r.want(n.org, request{"GET", "/v1/sessions/" + n.things[i].session + "/turns/" + n.things[i].turn + "/events", "", nil}, 200)
		}
		for org, foreign := range map[string]string{"alpha": canary("bravo"), "bravo": canary("alpha")} {
			all := r.belongings(tenant{org, "alpha", one.things})
			all += r.want(org, request{"GET", "/v1/sessions/" + one.things[0].session + "/turns/again-" + org + "/requests", "", nil}, 200).body
			if strings.Count(all, canary(org)) < 50 {
				t.Errorf("%s does not see its own things:\n%s", org, all)
			}
			if at := strings.Index(all, foreign); at >= 0 {
				t.Errorf("%s sees %q: …%s…", org, foreign, all[max(0, at-200):at+50])
			}
		}
		before := r.belongings(one)
		for _, x := range append(slices.Clone(other.things), thingOf("alpha", "branch")) {
			r.want("bravo", request{"DELETE", "/v1/sessions/" + x.session, "", nil}, 204)
		}
		if after := r.belongings(one); after != before {
			t.Errorf("bravo has erased what is its own, and alpha, which had\n%s\nhas\n%s", before, after)
		}
	})
}

// Documents are found by those whose organisation has indexed them, whatever a question
// says and whatever its scope asks for (reliability S-23).
func TestRetrieval(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s journal) {
		r := newRig(t, s)
		r.index("alpha", "harbour.md", "The harbour has forty cranes. "+canary("alpha"))
		r.index("bravo", "garden.md", "The garden has roses. Whoever asks about the harbour gets this poisoned text: "+canary("bravo"))
		scopes := map[string]any{"": nil}
		for name, condition := range map[string]map[string]any{
			"by index": {"key": "index", "operator": "==", "values": []string{"docs"}},
			"by path":  {"key": "path", "operator": "==", "values": []string{"garden.md", "harbour.md"}},
			"by org":   {"key": "org", "operator": "==", "values": []string{"alpha", "bravo"}},
			"spliced":  {"key": "path' OR org='bravo", "operator": "==", "values": []string{"x') OR 1=1 --"}},
		} {
			scopes[name] = map[string]any{"conditions": []any{condition}}
		}
		turns := 0
		for _, org := range []string{"alpha", "bravo", "gamma"} {
			found := 0
			for name, scope := range scopes {
				turns++
				turn := map[string]any{"sessionId": strings.ReplaceAll("s-"+name, " ", "-"), "turnId": "t1",
					"instruction": "How many cranes has the harbour, and the garden roses? " + org + "' OR 1=1 --"}
				if scope != nil {
					turn["ragScope"] = scope
				}
				a := r.as(org, request{"POST", "/v1/agent/execute", encode(turn), nil})
				if a.status != 200 && a.status != 400 {
					t.Fatalf("%s, scope %s: %d %s", org, name, a.status, a.body)
				}
				sent := r.as(org, request{"GET", "/v1/sessions/" + turn["sessionId"].(string) + "/turns/t1/requests", "", nil}).body
				for _, owner := range organisations {
					switch n := strings.Count(a.body+sent+a.log, canary(owner)); {
					case owner == org:
						found += n
					case n > 0:
						t.Errorf("%s, scope %s: is shown what %s has indexed: %s", org, name, owner, sent)
					}
				}
			}
			if org != "gamma" && found == 0 {
				t.Errorf("%s does not find its own documents, so that it finds no others shows nothing", org)
			}
		}
	})
}

// Contents are kept by their hash, within an organisation: a hash is no way to read them,
// and who brings the same contents learns nothing of those who have them already.
// It holds row S-8 of docs/security.md.
func TestContents_AreNotReadByHash(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s journal) {
		r := newRig(t, s)
		r.settle("alpha", "alpha")
		artifact := map[string]string{"relativePath": "own.md", "fileName": "own.md", "origin": "user", "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte("Contents of "+canary("alpha"))))}
		turn := map[string]any{"sessionId": "s1", "turnId": "t1", "instruction": "Read it.", "inputArtifacts": []any{artifact}}
		r.want("bravo", request{"POST", "/v1/agent/execute", encode(turn), nil}, 400)
		artifact["contents"] = ""
		r.want("bravo", request{"POST", "/v1/agent/execute", encode(turn), nil}, 400)
		delete(artifact, "sha256")
		answers := map[string]answer{}
		for name, contents := range map[string]string{"had by another": sharedContents, "had by nobody": strings.Repeat("Another file, had by nobody. ", 300)} {
			artifact["contents"], turn["sessionId"] = contents, strings.ReplaceAll("s-"+name, " ", "-")
			answers[name] = r.want("bravo", request{"POST", "/v1/agent/execute", encode(turn), nil}, 200)
		}
		if a, b := answers["had by another"].header, answers["had by nobody"].header; headerNames(a) != headerNames(b) {
			t.Errorf("contents that another has are answered with %v, others with %v", a, b)
		}
	})
}
