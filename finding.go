package fencepost

// Level says how much a [Finding] matters.
type Level string

// The levels of findings.
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // leases are safe, but something is slower, blinder or weaker than it could be
	LevelFailure Level = "failure" // leases cannot work here, or their promise does not hold
)

// Finding is one answer to the question whether a database is safe for leases.
type Finding struct {
	Check  string `json:"check"` // what was looked at: clock, isolation, privileges, ...
	Level  Level  `json:"level"`
	Detail string `json:"detail"`           // what was found
	Advice string `json:"advice,omitempty"` // what to do; empty when nothing needs doing
}
