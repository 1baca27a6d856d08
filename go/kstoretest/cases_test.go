package kstoretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// object is one of JSON.
type object = map[string]any

// shared is a case of cases.yaml, which says what each step means.
type shared struct {
	Name string
	Fork struct {
		Clock      string
		Seed       uint64
		Components []string
	}
	Steps []map[string]json.RawMessage
}

// TestSharedCases runs the cases that the packages of all languages run.
func TestSharedCases(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)
	lab := StartLab(t, LabOptions{Start: start, Seed: 7, Patience: patience})
	lab.Settled(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "lab", "cases", "cases.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := lab.decodeYAML(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []shared }
	if err := json.Unmarshal(decoded, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%d cases: %v", len(file.Cases), err)
	}
	for _, one := range file.Cases {
		t.Run(one.Name, func(t *testing.T) {
			fork := lab.ForkWith(t, ForkOptions{Clock: one.Fork.Clock, Seed: one.Fork.Seed, Components: one.Fork.Components})
			runner{t, fork, fork.Now(t)}.run(one.Steps)
		})
	}
}

// runner runs steps in a cluster.
type runner struct {
	t     *testing.T
	lab   *Lab
	begin time.Time
}

// branch is the argument of steps that have steps.
type branch struct {
	Name, Clock string
	Count       int
	Steps, Then []map[string]json.RawMessage
}

// expected is the argument of all other steps that are objects.
type expected struct {
	Object, Resource, Prefix, Time, Client, Verb, Name, Call, Method, Path, Message, Condition, Limit, Agent, Mode string
	Is, Code                                                                                                       int
	Factor                                                                                                         float64
	Busy                                                                                                           json.RawMessage
	Codes                                                                                                          []int
	Command, Effects                                                                                               []string
	Matches, Body                                                                                                  object
	Node, Fault, Value, Duration                                                                                   string
	Cache, Kill, Program                                                                                           string
	Seed                                                                                                           int
	Clients, Resources, After                                                                                      []string
	Rules                                                                                                          []struct {
		Fault, Client    string
		Probability      float64
		Times            int
		Verbs, Resources []string
	}
}

func (r runner) run(steps []map[string]json.RawMessage) {
	r.t.Helper()
	for _, step := range steps {
		for kind, given := range step {
			var text string
			var in branch
			var is expected
			if json.Unmarshal(given, &text) != nil && kind != "apply" {
				r.read(kind, given, &in, &is)
			}
			if !r.act(kind, text, in, is, given) && !r.perturb(kind, is) && !r.expect(kind, text, is) && !r.happened(kind, text, is, given) {
				r.t.Fatalf("no such step: %s", kind)
			}
		}
	}
}

func (r runner) read(kind string, given json.RawMessage, in *branch, is *expected) {
	r.t.Helper()
	var err error
	switch {
	case kind == "hits":
	case slices.Contains([]string{"fork", "forks", "image"}, kind):
		err = json.Unmarshal(given, in)
	default:
		err = json.Unmarshal(given, is)
	}
	if err != nil {
		r.t.Fatalf("%s: %v", kind, err)
	}
}

// in is the runner of another cluster, whose time began with this one's.
func (r runner) in(lab *Lab) runner { return runner{r.t, lab, r.begin} }

func (r runner) act(kind, text string, in branch, is expected, given json.RawMessage) bool {
	t, lab := r.t, r.lab
	t.Helper()
	switch kind {
	case "apply":
		var objects []any
		if err := json.Unmarshal(given, &objects); err != nil {
			t.Fatal(err)
		}
		lab.Apply(t, objects...)
	case "delete":
		lab.api(t, http.MethodDelete, r.path(text), "")
	case "settled":
		lab.Settled(t)
	case "advance":
		lab.Advance(t, length(t, text))
	case "leap":
		lab.Leap(t, length(t, text))
	case "clock":
		clock := is.Mode
		if is.Factor != 0 {
			clock = fmt.Sprintf("%gx", is.Factor)
		}
		lab.SetClock(t, clock)
	case "wait":
		found := r.kindNamed(strings.Split(is.Object, "/")[0])
		place := "default/"
		if !found.isNamespaced {
			place = ""
		}
		reference := found.qualified() + "/" + place + strings.Split(is.Object, "/")[1]
		body := object{"object": reference, "limit": is.Limit, "patience": patience.String()}
		if is.Condition != "" {
			body["condition"] = is.Condition
		} else {
			body["matches"] = object{}
		}
		lab.must(t, http.MethodPost, "/wait", body, nil)
	case "client":
		body := object{"busy": is.Busy}
		if is.Agent != "" {
			body["match"] = object{"agent": is.Agent}
		}
		lab.must(t, http.MethodPut, "/clients/"+is.Name, body, nil)
	case "program":
		lab.Program(t, is.Name, ProgramOptions{}, is.Command...)
	case "stopNode", "startNode":
		lab.must(t, http.MethodPost, "/nodes/"+text+"/"+strings.TrimSuffix(kind, "Node"), struct{}{}, nil)
	case "nodeFault":
		options := NodeFaultOptions{Value: is.Value}
		if is.Duration != "" {
			options.Duration = length(t, is.Duration)
		}
		lab.NodeFault(t, is.Node, is.Fault, options)
	case "healNode":
		lab.HealNode(t, is.Node, is.Fault)
	case "reset":
		lab.Reset(t)
	case "fork":
		other := lab.ForkWith(t, ForkOptions{Name: in.Name, Clock: in.Clock})
		r.in(other).run(in.Steps)
		other.Stop()
	case "forks":
		for _, other := range lab.Forks(t, in.Count) {
			r.in(other).run(in.Steps)
			other.Stop()
		}
	case "image":
		image := lab.Image(t, in.Name)
		r.run(in.Steps)
		r.in(image.Fork(t)).run(in.Then)
		image.Delete(t)
	default:
		return false
	}
	return true
}

func (r runner) perturb(kind string, is expected) bool {
	t, lab := r.t, r.lab
	t.Helper()
	switch kind {
	case "faults":
		faults := Seed(is.Seed)
		for _, rule := range is.Rules {
			faults.Rule(rule.Fault, rule.Probability).Client(rule.Client).Verbs(rule.Verbs...).Resources(rule.Resources...).With("times", rule.Times)
		}
		lab.SetFaults(t, faults)
	case "cache":
		lab.Cache(t, is.Name, is.Clients...)
	case "freeze":
		(&LabCache{is.Cache, lab}).Freeze(t, is.Resources...)
	case "thaw":
		(&LabCache{is.Cache, lab}).Thaw(t)
	case "plan":
		lab.Plan(t, Kill(&Program{is.Kill, lab}).After(is.After[0], is.After[1]))
	default:
		return false
	}
	return true
}

func (r runner) happened(kind, text string, is expected, given json.RawMessage) bool {
	t, lab := r.t, r.lab
	t.Helper()
	switch kind {
	case "hits":
		var wanted, found []int
		for _, rule := range lab.FaultCounts(t) {
			found = append(found, rule.Hits)
		}
		if err := json.Unmarshal(given, &wanted); err != nil || !slices.Equal(found, wanted) {
			t.Errorf("%v, not %s", found, given)
		}
	case "nodeFaults":
		var wanted struct{ Are [][2]string }
		if err := json.Unmarshal(given, &wanted); err != nil {
			t.Fatal(err)
		}
		var found [][2]string
		for _, fault := range lab.NodeFaults(t, is.Node) {
			found = append(found, [2]string{fault.Fault, fault.State})
		}
		if !slices.Equal(found, wanted.Are) {
			t.Errorf("%v, not %v", found, wanted.Are)
		}
	case "planned":
		var running struct{ Plans []Plan }
		lab.must(t, http.MethodGet, "/plans", nil, &running)
		if len(running.Plans) != 1 {
			t.Fatalf("%d plans", len(running.Plans))
		}
		plan := &Plan{running.Plans[0].ID, lab}
		if state := plan.Wait(t); state.State != text {
			t.Errorf("%+v", state)
		}
	case "incarnation":
		if state := (&Program{is.Program, lab}).State(t); state.Incarnation != is.Is {
			t.Errorf("%+v", state)
		}
	default:
		return false
	}
	return true
}

func (r runner) expect(kind, text string, is expected) bool {
	t, lab := r.t, r.lab
	t.Helper()
	switch kind {
	case "passed":
		if passed := lab.Now(t).Sub(r.begin); passed != length(t, text) {
			t.Errorf("%v passed, not %s", passed, text)
		}
	case "mode":
		var clock struct{ Mode string }
		if lab.must(t, http.MethodGet, "/clock", nil, &clock); clock.Mode != text {
			t.Errorf("the clock is %s, not %s", clock.Mode, text)
		}
	case "count":
		named := func(item object) bool { return strings.HasPrefix(metadata(item, "name"), is.Prefix) }
		if found := len(slices.DeleteFunc(r.list(is.Resource), func(item object) bool { return !named(item) })); found != is.Is {
			t.Errorf("%d %s, not %d", found, is.Resource, is.Is)
		}
	case "at":
		items := r.list(is.Resource)
		for _, item := range items {
			if made := metadata(item, "creationTimestamp"); !strings.HasSuffix(made, is.Time) {
				t.Errorf("%s was made at %s", metadata(item, "name"), made)
			}
		}
		if len(items) == 0 {
			t.Errorf("no %s", is.Resource)
		}
	case "get":
		var found any
		if err := json.Unmarshal([]byte(lab.api(t, http.MethodGet, r.path(is.Object), "")), &found); err != nil || !has(found, is.Matches) {
			t.Errorf("%v has not %v", found, is.Matches)
		}
	case "absent":
		_, err := lab.send(context.Background(), http.MethodGet, r.path(text), "", nil)
		var refused *LabError
		if !errors.As(err, &refused) || refused.Code != http.StatusNotFound {
			t.Errorf("%s: %v", text, err)
		}
	case "requests":
		r.requests(is)
	case "writes":
		r.writes(is)
	case "reads":
		var view struct{ Kinds map[string]any }
		lab.must(t, http.MethodGet, "/clients/"+is.Client+"/view", nil, &view)
		if _, found := view.Kinds[is.Resource]; !found {
			t.Errorf("%s does not read %s", is.Client, is.Resource)
		}
	case "busy":
		r.busy(is)
	case "reported":
		if report, err := lab.Report(); err != nil || !slices.Contains(strings.Split(report, "\n"), text) {
			t.Errorf("%v\n%s", err, report)
		}
	case "refused":
		var body any
		if is.Body != nil {
			body = is.Body
		}
		var refused *LabError
		err := lab.Call(is.Method, is.Path, body, nil)
		if !errors.As(err, &refused) || refused.Code != is.Code || !strings.Contains(refused.Message, is.Message) {
			t.Errorf("%v", err)
		}
	default:
		return false
	}
	return true
}

func (r runner) requests(is expected) {
	r.t.Helper()
	var codes []int
	query := url.Values{"client": {is.Client}, "verb": {is.Verb}, "resource": {is.Resource}}
	for _, request := range r.lab.Requests(r.t, query.Encode()) {
		codes = append(codes, request.Code)
	}
	if !slices.Equal(codes, is.Codes) {
		r.t.Errorf("%v, not %v", codes, is.Codes)
	}
}

func (r runner) writes(is expected) {
	r.t.Helper()
	var log struct {
		Writes []struct {
			Objects []struct{ Name, Effect string }
		}
	}
	query := url.Values{"resource": {is.Resource}, "name": {is.Name}}
	r.lab.must(r.t, http.MethodGet, "/writes?"+query.Encode(), nil, &log)
	var effects []string
	for _, write := range log.Writes {
		for _, object := range write.Objects {
			if object.Name == is.Name {
				effects = append(effects, object.Effect)
			}
		}
	}
	if !slices.Equal(effects, is.Effects) {
		r.t.Errorf("%v, not %v", effects, is.Effects)
	}
}

func (r runner) busy(is expected) {
	r.t.Helper()
	var wanted, found []string
	if err := json.Unmarshal(is.Busy, &wanted); err != nil {
		r.t.Fatal(err)
	}
	if is.Call == "advance" {
		var advanced Advanced
		r.lab.must(r.t, http.MethodPost, "/clock/advance", object{"by": "1h", "patience": "200ms"}, &advanced)
		for _, busy := range advanced.Busy {
			found = append(found, busy.Part+" "+busy.Client+": "+busy.What)
		}
	} else {
		var refused *LabError
		if err := r.lab.Call(http.MethodPost, "/"+is.Call, object{"patience": "200ms"}, nil); !errors.As(err, &refused) {
			r.t.Fatalf("%v", err)
		}
		found = refused.Busy
	}
	if !slices.Equal(found, wanted) {
		r.t.Errorf("%v, not %v", found, wanted)
	}
}

func (r runner) list(resource string) []object {
	r.t.Helper()
	var list struct{ Items []object }
	if err := json.Unmarshal([]byte(r.lab.api(r.t, http.MethodGet, r.kindNamed(resource).path("default", ""), "")), &list); err != nil {
		r.t.Fatal(err)
	}
	return list.Items
}

// path of KIND/NAME.
func (r runner) path(reference string) string {
	r.t.Helper()
	word, name, _ := strings.Cut(reference, "/")
	return r.kindNamed(word).path("default", name)
}

func (r runner) kindNamed(word string) kind {
	r.t.Helper()
	found, err := r.lab.kind(word, func(k kind) bool { return word == k.qualified() || word == k.singular || word == k.plural })
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

func metadata(item object, member string) string {
	text, _ := item["metadata"].(object)[member].(string)
	return text
}

// has says whether a value has at least the members of another one, and its lists the items.
func has(found, wanted any) bool {
	switch wanted := wanted.(type) {
	case object:
		is, isObject := found.(object)
		for name, part := range wanted {
			member, isThere := is[name]
			if !isThere || !has(member, part) {
				return false
			}
		}
		return isObject
	case []any:
		is, _ := found.([]any)
		for _, part := range wanted {
			if !slices.ContainsFunc(is, func(one any) bool { return has(one, part) }) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(found, wanted)
}

func length(t *testing.T, text string) time.Duration {
	t.Helper()
	parsed, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
