package kstoretest

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// Faults of requests for [Faults.Rule]. All but Conflict are what a real cluster can show.
const (
	// Touch changes the object before an update that carries a resourceVersion: a real conflict follows.
	Touch = "touch"
	// TooMany is 429, Error 500 of an etcd that elects a leader, Unavailable 503 or a reset, Timeout 504: nothing is performed.
	TooMany     = "too-many"
	Error       = "error"
	Unavailable = "unavailable"
	Timeout     = "timeout"
	// LostAnswer performs the request, and its answer does not arrive.
	LostAnswer = "lost-answer"
	// Slow performs the request late, in real time; it needs the parameter for or upTo.
	Slow = "slow"
	// Cut ends a watch, Expire answers it with 410.
	Cut    = "cut"
	Expire = "expire"
	// StaleLists shows lists with resourceVersion=0 a state of up to so many revisions ago; it needs the parameter by.
	StaleLists = "stale-lists"
	// Conflict is 409 although nothing has changed. No real server does this: it needs the parameter illegal.
	Conflict = "conflict"
)

// Faults are seeded rules of faults. Made by [Seed]; the methods after Rule are about the last rule.
type Faults struct {
	seed  int
	rules []map[string]any
}

// FaultCount is how often a rule hit.
type FaultCount struct {
	Name, Fault string
	// Hits are requests that got the fault, Skipped those that could not get it in a legal way.
	Hits, Skipped int
}

// Seed begins rules whose draws follow from the seed.
func Seed(seed int) *Faults { return &Faults{seed: seed} }

// Rule adds a rule: a fault, and the probability of each request. Without a client, all but the cluster's own components are affected.
func (f *Faults) Rule(fault string, probability float64) *Faults {
	f.rules = append(f.rules, map[string]any{"fault": fault, "probability": probability})
	return f
}

// Agent lets the rule be for the clients of a user agent.
func (f *Faults) Agent(agent string) *Faults { return f.nested("client", "agent", agent) }

// Client lets the rule be for a program, or another client by its name in the lab.
func (f *Faults) Client(name string) *Faults { return f.nested("client", "program", name) }

// Verbs lets the rule be for requests of these verbs.
func (f *Faults) Verbs(verbs ...string) *Faults { return f.nested("request", "verbs", verbs) }

// Resources lets the rule be for requests of these kinds, as globs of plural.group.
func (f *Faults) Resources(resources ...string) *Faults {
	return f.nested("request", "resources", resources)
}

// With gives a further member of the rule as the lab's API has it, such as a parameter of the fault, first, or times.
func (f *Faults) With(member string, value any) *Faults {
	f.rules[len(f.rules)-1][member] = value
	return f
}

func (f *Faults) nested(member, inner string, value any) *Faults {
	rule := f.rules[len(f.rules)-1]
	selector, _ := rule[member].(map[string]any)
	if selector == nil {
		selector = map[string]any{}
		rule[member] = selector
	}
	selector[inner] = value
	return f
}

// SetFaults sets seeded rules in place of those before.
func (l *Lab) SetFaults(t testing.TB, faults *Faults) {
	t.Helper()
	l.must(t, http.MethodPut, "/faults", map[string]any{"seed": faults.seed, "rules": faults.rules}, nil)
}

// ClearFaults removes all rules.
func (l *Lab) ClearFaults(t testing.TB) {
	t.Helper()
	l.must(t, http.MethodDelete, "/faults", nil, nil)
}

// FaultCounts are the hits of each rule since the rules were set.
func (l *Lab) FaultCounts(t testing.TB) []FaultCount {
	t.Helper()
	var counts struct{ Rules []FaultCount }
	l.must(t, http.MethodGet, "/faults/counts", nil, &counts)
	return counts.Rules
}

// LabCache is a watch cache that stands still when it is told to, as another kube-apiserver's may. Made by [Lab.Cache].
type LabCache struct {
	// Name of the cache in the lab.
	Name string

	lab *Lab
}

// NodeFault is a fault of a simulated node.
type NodeFault struct {
	// Fault is its name, Item its text with value and times, as the annotation of the Node has it.
	Fault, Item string
	// By is what asks for it: annotation, nodefault/NAME, or stop. State is waiting, active or over.
	By, State string
}

// NodeFaultOptions are the value and the times of a fault of a node. Without a Duration it holds until [Lab.HealNode].
type NodeFaultOptions struct {
	Value                  string
	After, Duration, Every time.Duration
}

// NodeFault gives a simulated node a fault, such as crash, beside those that it has. It returns all of the node.
func (l *Lab) NodeFault(t testing.TB, node, fault string, options NodeFaultOptions) []NodeFault {
	t.Helper()
	body := map[string]any{"fault": fault}
	if options.Value != "" {
		body["value"] = options.Value
	}
	for name, length := range map[string]time.Duration{"after": options.After, "duration": options.Duration, "every": options.Every} {
		if length != 0 {
			body[name] = length.String()
		}
	}
	var found struct{ Faults []NodeFault }
	l.must(t, http.MethodPost, "/nodes/"+url.PathEscape(node)+"/faults", body, &found)
	return found.Faults
}

// NodeFaults are the faults of a simulated node.
func (l *Lab) NodeFaults(t testing.TB, node string) []NodeFault {
	t.Helper()
	var found struct{ Faults []NodeFault }
	l.must(t, http.MethodGet, "/nodes/"+url.PathEscape(node)+"/faults", nil, &found)
	return found.Faults
}

// HealNode withdraws the faults of a simulated node: those of one name, or all if it is empty.
func (l *Lab) HealNode(t testing.TB, node, fault string) {
	t.Helper()
	path := "/nodes/" + url.PathEscape(node) + "/faults"
	if fault != "" {
		path += "?fault=" + url.QueryEscape(fault)
	}
	l.must(t, http.MethodDelete, path, nil, nil)
}

// Cache makes a watch cache, which follows the newest state, and routes the reads of these clients to it: programs, or other clients by
// their names in the lab.
func (l *Lab) Cache(t testing.TB, name string, clients ...string) *LabCache {
	t.Helper()
	cache := &LabCache{Name: name, lab: l}
	l.must(t, http.MethodPut, cache.path(), struct{}{}, nil)
	var before, routes []any
	l.must(t, http.MethodGet, "/routes", nil, &before)
	for _, client := range clients {
		routes = append(routes, map[string]any{"client": map[string]string{"program": client}, "cache": name})
	}
	if len(routes) > 0 {
		l.must(t, http.MethodPut, "/routes", append(routes, before...), nil)
	}
	return cache
}

// Freeze lets the cache stand still for these kinds, as plural.group; for all if there are none.
func (c *LabCache) Freeze(t testing.TB, resources ...string) {
	t.Helper()
	c.lab.must(t, http.MethodPost, c.path()+"/freeze", map[string]any{"resources": append([]string{}, resources...)}, nil)
}

// Thaw lets the cache deliver what it has held back, in order.
func (c *LabCache) Thaw(t testing.TB, resources ...string) {
	t.Helper()
	c.lab.must(t, http.MethodPost, c.path()+"/thaw", map[string]any{"resources": append([]string{}, resources...)}, nil)
}

// Delete removes the cache: its clients see the newest state, never an older one.
func (c *LabCache) Delete(t testing.TB) {
	t.Helper()
	c.lab.must(t, http.MethodDelete, c.path(), nil, nil)
}

func (c *LabCache) path() string { return "/caches/" + url.PathEscape(c.Name) }

// Action is an action of a plan, which happens once, at its trigger; without one at once.
type Action struct {
	body    map[string]any
	program string
}

// Do is an action by its name in the lab's API, with its parameters: such as freeze, thaw, recreate, flip, take-lease, or a fault.
func Do(action string, parameters map[string]any) *Action {
	body := map[string]any{"action": action}
	for name, value := range parameters {
		body[name] = value
	}
	program, _ := body["program"].(string)
	return &Action{body: body, program: program}
}

// Kill ends a program by SIGKILL, and starts it again at once.
func Kill(program *Program) *Action { return Do("kill", map[string]any{"program": program.Name}) }

// With gives a further member of the action as the lab's API has it, such as start, until, or times.
func (a *Action) With(member string, value any) *Action {
	a.body[member] = value
	return a
}

// After lets the action happen when such a request of its program has been performed, before the program has the answer.
func (a *Action) After(verb, resource string) *Action { return a.request("done", verb, resource) }

// Before lets the action happen when such a request of its program has arrived, before it is performed.
func (a *Action) Before(verb, resource string) *Action { return a.request("arrived", verb, resource) }

func (a *Action) request(phase, verb, resource string) *Action {
	request := map[string]any{"verb": verb, "resource": resource, "phase": phase}
	if a.program != "" {
		request["client"] = a.program
	}
	return a.When(map[string]any{"request": request})
}

// AtTime lets the action happen when so much of the cluster's time has passed since the action before it.
func (a *Action) AtTime(after time.Duration) *Action {
	return a.When(map[string]any{"time": map[string]string{"after": after.String()}})
}

// When lets the action happen at a trigger as the lab's API writes it.
func (a *Action) When(trigger map[string]any) *Action {
	a.body["trigger"] = trigger
	return a
}

// Plan is a running plan. Made by [Lab.Plan].
type Plan struct {
	// ID of the plan in the lab.
	ID string

	lab *Lab
}

// PlanState is the state of a plan.
type PlanState struct {
	// State is running, done, failed (a held request had to go on), or not-reached.
	State   string
	Actions []struct {
		// State is waiting, armed, held, done, or skipped, and Why says why it is skipped.
		State, Why string
		// FiredBy is what fired it.
		FiredBy string
	}
}

// Plan runs actions in their order, each at its trigger: a request, an event or a write that is observed, never the real time. It ends with
// the test, with all that its actions began.
func (l *Lab) Plan(t testing.TB, actions ...*Action) *Plan {
	t.Helper()
	var bodies []map[string]any
	for _, action := range actions {
		bodies = append(bodies, action.body)
	}
	var answer struct{ ID string }
	l.must(t, http.MethodPost, "/plans", map[string]any{"actions": bodies}, &answer)
	plan := &Plan{ID: answer.ID, lab: l}
	t.Cleanup(func() {
		// A cluster that has ended has no plans.
		_ = l.Call(http.MethodDelete, plan.path(), nil, nil)
	})
	return plan
}

// State is the state of the plan and of its actions.
func (p *Plan) State(t testing.TB) PlanState {
	t.Helper()
	var state PlanState
	p.lab.must(t, http.MethodGet, p.path(), nil, &state)
	return state
}

// Wait waits, in real time, until the plan no longer runs. The test fails if that takes longer than LabOptions.Patience. A killed program is
// started again by then: Settled then waits for it.
func (p *Plan) Wait(t testing.TB) PlanState {
	t.Helper()
	for limit := time.Now().Add(p.lab.patience); ; time.Sleep(10 * time.Millisecond) {
		state := p.State(t)
		if state.State != "running" {
			return state
		}
		if time.Now().After(limit) {
			t.Fatalf("kstoretest: the plan %s still runs: %+v", p.ID, state)
		}
	}
}

// Resume lets held requests go on.
func (p *Plan) Resume(t testing.TB) {
	t.Helper()
	p.lab.must(t, http.MethodPost, p.path()+"/resume", struct{}{}, nil)
}

// End ends the plan, with all that its actions began.
func (p *Plan) End(t testing.TB) {
	t.Helper()
	p.lab.must(t, http.MethodDelete, p.path(), nil, nil)
}

func (p *Plan) path() string { return "/plans/" + url.PathEscape(p.ID) }
