// Package deploy_test holds the reference files of this folder to what the binary takes,
// as far as that can be seen without running containers.
package deploy_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/server"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// known returns the variables that the configuration is read from.
func known(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	_, err := config.Load(config.Options{LookupEnv: func(name string) (string, bool) {
		names[name] = true
		return "", false
	}})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// checkEnvironment holds the variables of a node to what the binary knows and accepts.
// Those that come from a secret have no value here.
func checkEnvironment(t *testing.T, env map[string]string) {
	t.Helper()
	names := known(t)
	for name := range env {
		if !names[name] {
			t.Errorf("%s is no setting", name)
		}
	}
	for _, name := range []string{"APTIX_LISTEN", "APTIX_NATS"} {
		if _, ok := env[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	c, err := config.Load(config.Options{LookupEnv: func(name string) (string, bool) {
		switch v, ok := env[name]; name {
		case "APTIX_LISTEN", "APTIX_MODEL":
			return v, ok
		}
		return "", false // secrets, and servers that are not here
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.CheckListen(c.Listen, false); err != nil {
		t.Error(err)
	}
}

// The node's own time to stop: drainTime of cmd/aptix, then at most pipeline's SettleTime
// for what does not stop, then the closing of connections.
func stopTime(t *testing.T) time.Duration {
	t.Helper()
	const settle, closing = 30 * time.Second, 5 * time.Second
	files, err := filepath.Glob("../cmd/aptix/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if o := f.Scope.Lookup("drainTime"); o != nil {
			product := o.Decl.(*ast.ValueSpec).Values[0].(*ast.BinaryExpr)
			n, err := strconv.Atoi(product.X.(*ast.BasicLit).Value)
			if err != nil || product.Y.(*ast.SelectorExpr).Sel.Name != "Second" {
				t.Fatal("drainTime is no number of seconds")
			}
			return time.Duration(n)*time.Second + settle + closing
		}
	}
	t.Fatal("cmd/aptix has no drainTime")
	return 0
}

// isRoute reports whether the server has a route that is open to everybody.
func isRoute(t *testing.T, path string) bool {
	t.Helper()
	var d struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(read(t, "../internal/server/testdata/openapi.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d.Paths[path]["get"] != nil
}

// conf is a piece of nginx's configuration: the values of each directive, and the blocks.
type conf struct {
	values map[string][]string
	blocks map[string]*conf
}

// parseConf reads nginx's configuration, as far as these files use it.
func parseConf(t *testing.T, text string) *conf {
	t.Helper()
	text = regexp.MustCompile(`(?m)#.*$`).ReplaceAllString(text, "")
	stack := []*conf{{map[string][]string{}, map[string]*conf{}}}
	for _, m := range regexp.MustCompile(`\s*([^;{}]*)([;{}])`).FindAllStringSubmatch(text, -1) {
		top, words := stack[len(stack)-1], strings.Fields(m[1])
		switch {
		case m[2] == "{":
			block := &conf{map[string][]string{}, map[string]*conf{}}
			top.blocks[strings.Join(words, " ")] = block
			stack = append(stack, block)
		case m[2] == "}" && len(stack) > 1 && len(words) == 0:
			stack = stack[:len(stack)-1]
		case m[2] == ";" && len(words) > 0:
			top.values[words[0]] = append(top.values[words[0]], strings.Join(words[1:], " "))
		default:
			t.Fatalf("nginx would not read %q", m[0])
		}
	}
	if len(stack) != 1 {
		t.Fatal("a block is not closed")
	}
	return stack[0]
}

// checkProxy holds the proxy's configuration to what a node needs, and returns the
// addresses of the nodes.
func checkProxy(t *testing.T, text, port, htpasswd string) (nodes []string) {
	t.Helper()
	c := parseConf(t, text)
	for _, s := range c.blocks["upstream aptix"].values["server"] {
		address, _, _ := strings.Cut(s, " ")
		nodes = append(nodes, address)
	}
	s := c.blocks["server"]
	want := map[string]string{
		"listen": port, "auth_basic": `"Aptix"`, "auth_basic_user_file": htpasswd,
		"proxy_buffering": "off", "proxy_http_version": "1.1", "client_max_body_size": "8m",
	}
	for name, value := range want {
		if got := s.values[name]; !slices.Equal(got, []string{value}) {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	for _, header := range []string{"Host 127.0.0.1", `Connection ""`, `Authorization ""`} {
		if !slices.Contains(s.values["proxy_set_header"], header) {
			t.Errorf("the proxy does not set the header %s", header)
		}
	}
	c0, err := config.Load(config.Options{LookupEnv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	idle, err := time.ParseDuration(s.values["proxy_read_timeout"][0])
	if err != nil || idle <= c0.Limits.Turn {
		t.Errorf("the proxy gives up after %s (%v), a turn may take %s", idle, err, c0.Limits.Turn)
	}
	for name, block := range s.blocks {
		path := strings.TrimPrefix(strings.TrimPrefix(name, "location "), "= ")
		if !slices.Equal(block.values["proxy_pass"], []string{"http://aptix"}) {
			t.Errorf("%s goes to %q", path, block.values["proxy_pass"])
		}
		open := path == "/livez" || path == "/readyz"
		if slices.Equal(block.values["auth_basic"], []string{"off"}) != open {
			t.Errorf("%s: open to everybody is %v", path, !open)
		}
		if open && !isRoute(t, path) {
			t.Errorf("the server has no %s", path)
		}
	}
	if !slices.Equal(s.blocks["location /"].values["proxy_pass"], []string{"http://aptix"}) {
		t.Error("the rest goes nowhere")
	}
	return nodes
}

// compose is what is looked at of compose.yaml.
type compose struct {
	Services map[string]struct {
		Build struct {
			Context    string
			Dockerfile string
		}
		Image           string
		Command         []string
		NetworkMode     string `yaml:"network_mode"`
		Environment     map[string]string
		Secrets         []string
		Ports           []string
		Volumes         []string
		DependsOn       map[string]any `yaml:"depends_on"`
		StopGracePeriod time.Duration  `yaml:"stop_grace_period"`
	}
	Secrets map[string]struct{ File string }
	Volumes map[string]any
}

func TestCompose(t *testing.T) {
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	var listens []string
	for name, s := range c.Services {
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s: there is no secret %s", name, secret)
			}
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, named := c.Volumes[from]; !named {
				read(t, from)
			}
		}
		if !strings.HasPrefix(name, "node-") {
			continue
		}
		if s.StopGracePeriod < stopTime(t) {
			t.Errorf("%s is killed after %s, and may take %s to stop", name, s.StopGracePeriod, stopTime(t))
		}
		if s.NetworkMode != "service:edge" || !slices.Equal(s.Command, []string{"serve"}) {
			t.Errorf("%s: network %q, command %q", name, s.NetworkMode, s.Command)
		}
		read(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
		for variable, value := range s.Environment {
			if secret, ok := strings.CutPrefix(value, "/run/secrets/"); ok && !slices.Contains(s.Secrets, secret) {
				t.Errorf("%s: %s names the secret %s, which the node is not given", name, variable, secret)
			}
		}
		checkEnvironment(t, s.Environment)
		listens = append(listens, s.Environment["APTIX_LISTEN"])
	}
	slices.Sort(listens)
	if diff := cmp.Diff(listens, checkProxy(t, read(t, "nginx.conf"), "8080", "/run/secrets/htpasswd")); diff != "" {
		t.Errorf("where the nodes listen and where the proxy looks for them (-want +got):\n%s", diff)
	}
	if !slices.Contains(c.Services["edge"].Secrets, "htpasswd") {
		t.Error("the proxy is not given its passwords")
	}
	for _, p := range c.Services["edge"].Ports {
		if !strings.HasPrefix(p, "127.0.0.1:") || !strings.HasSuffix(p, ":8080") {
			t.Errorf("port %s is open to others, or is not the proxy's", p)
		}
	}
}

// render renders the chart as Helm does, with what its templates use of Helm, and
// returns its objects by kind. change alters the values.
func render(t *testing.T, change func(values map[string]any)) map[string]map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "helm/aptix/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	change(values)
	all, err := template.New("").Option("missingkey=error").ParseGlob("helm/aptix/templates/*")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]map[string]any{}
	for _, tpl := range all.Templates() {
		if !strings.HasSuffix(tpl.Name(), ".yaml") {
			continue
		}
		var out strings.Builder
		if err := tpl.Execute(&out, map[string]any{"Values": values, "Release": map[string]any{"Name": "mine"}}); err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(out.String()), &object); err != nil {
			t.Fatalf("%s: %v\n%s", tpl.Name(), err, out.String())
		}
		objects[object["kind"].(string)] = object
	}
	return objects
}

// at returns what stands at a path of names and indexes, such as spec.ports.0.port.
func at(t *testing.T, v any, path string) any {
	t.Helper()
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(in) {
				t.Fatalf("%s: there is no %s", path, part)
			}
			v = in[i]
		default:
			t.Fatalf("%s: there is nothing at %s", path, part)
		}
	}
	return v
}

func TestChart(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"as it is": func(map[string]any) {},
		"everything": func(v map[string]any) {
			v["openai"].(map[string]any)["secret"] = "openai"
			v["modes"].(map[string]any)["configMap"] = "modes"
			v["env"] = map[string]any{"APTIX_MODEL": "gpt: \"5\""}
			v["edge"].(map[string]any)["port"] = 9090
		},
	} {
		t.Run(name, func(t *testing.T) { checkChart(t, render(t, change)) })
	}
}

func checkChart(t *testing.T, objects map[string]map[string]any) {
	if diff := cmp.Diff([]string{"ConfigMap", "Deployment", "PodDisruptionBudget", "Service"}, slices.Sorted(maps.Keys(objects))); diff != "" {
		t.Fatalf("objects (-want +got):\n%s", diff)
	}
	deployment, service := objects["Deployment"], objects["Service"]
	pod := at(t, deployment, "spec.template.spec")
	node, edge := at(t, pod, "containers.0"), at(t, pod, "initContainers.0")

	env := map[string]string{}
	for _, e := range at(t, node, "env").([]any) {
		value, _ := at(t, e, "value").(string)
		env[at(t, e, "name").(string)] = value
		if value == "" && at(t, e, "valueFrom.secretKeyRef.name") == nil {
			t.Errorf("%v has neither a value nor a secret", e)
		}
	}
	for secret := range maps.Keys(env) {
		if (secret == "APTIX_DATABASE" || secret == "APTIX_NATS" || secret == "OPENAI_API_KEY") && env[secret] != "" {
			t.Errorf("%s is not by reference", secret)
		}
	}
	checkEnvironment(t, env)

	// One port all the way: service, probes, proxy, container.
	port := at(t, edge, "ports.0.containerPort")
	for what, got := range map[string]any{
		"service": at(t, service, "spec.ports.0.targetPort"), "ready": at(t, node, "readinessProbe.httpGet.port"),
		"live": at(t, node, "livenessProbe.httpGet.port"), "started": at(t, node, "startupProbe.httpGet.port"),
	} {
		if got != port {
			t.Errorf("%s: port %v, and the proxy listens on %v", what, got, port)
		}
	}
	if got := checkProxy(t, at(t, objects["ConfigMap"], "data").(map[string]any)["default.conf"].(string), strconv.Itoa(port.(int)), "/run/secrets/edge/htpasswd"); !slices.Equal(got, []string{env["APTIX_LISTEN"]}) {
		t.Errorf("the proxy looks for the node at %q, and it listens on %s", got, env["APTIX_LISTEN"])
	}
	if at(t, node, "readinessProbe.httpGet.path") != "/readyz" || at(t, node, "livenessProbe.httpGet.path") != "/livez" || at(t, edge, "restartPolicy") != "Always" {
		t.Error("the probes are mixed up, or the proxy is no sidecar")
	}

	grace := time.Duration(at(t, pod, "terminationGracePeriodSeconds").(int)) * time.Second
	before := time.Duration(at(t, node, "lifecycle.preStop.sleep.seconds").(int)) * time.Second
	if before <= 0 || grace < before+stopTime(t) {
		t.Errorf("a node is killed after %s, and may take %s and %s to stop", grace, before, stopTime(t))
	}

	labels := at(t, deployment, "spec.template.metadata.labels")
	for what, got := range map[string]any{
		"deployment": at(t, deployment, "spec.selector.matchLabels"), "service": at(t, service, "spec.selector"),
		"disruption budget": at(t, objects["PodDisruptionBudget"], "spec.selector.matchLabels"),
	} {
		if diff := cmp.Diff(labels, got); diff != "" {
			t.Errorf("the %s selects other pods (-pod +selector):\n%s", what, diff)
		}
	}

	volumes := map[any]bool{}
	for _, v := range at(t, pod, "volumes").([]any) {
		volumes[at(t, v, "name")] = true
	}
	for _, c := range []any{node, edge} {
		for _, m := range at(t, c, "volumeMounts").([]any) {
			if !volumes[at(t, m, "name")] {
				t.Errorf("there is no volume %v", at(t, m, "name"))
			}
			if at(t, m, "name") == "modes" && at(t, m, "mountPath") != env["APTIX_MODES"] {
				t.Error("the modes are not where the node looks for them")
			}
		}
		if at(t, c, "securityContext.readOnlyRootFilesystem") != true {
			t.Error("a container can write to its image")
		}
	}
}

// The image has nothing but the binary, which must not need a C library, and the
// certificates that it trusts.
func TestDockerfile(t *testing.T) {
	text := strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", " ")
	stages := strings.Split(text, "\nFROM ")
	build, last := stages[len(stages)-2], stages[len(stages)-1]
	for _, want := range []string{"CGO_ENABLED=0 go build", "./cmd/aptix\n"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build has no %q", want)
		}
	}
	for _, want := range []string{"scratch\n", "/ca-certificates.crt", "USER 65532:65532\n", `ENTRYPOINT ["/aptix"]`, `CMD ["serve"]`} {
		if !strings.Contains(last, want) {
			t.Errorf("the image has no %q", want)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	if !strings.Contains(build, "golang:"+version+" ") {
		t.Errorf("it is not built with Go %s", version)
	}
	chart := render(t, func(map[string]any) {})
	if uid := at(t, chart["Deployment"], "spec.template.spec.securityContext.runAsUser"); uid != 65532 {
		t.Errorf("the chart runs it as %v", uid)
	}
}
