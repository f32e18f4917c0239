package llm

import "encoding/json"

// responseObject is what is read of a response object. Most of it repeats the request,
// and is passed over.
type responseObject struct {
	ID         string
	Status     string
	Output     []json.RawMessage
	Usage      *usage
	Error      json.RawMessage
	Incomplete struct {
		Reason text `json:"reason"`
	}
	output []byte
}

func (o *responseObject) read(data []byte) error {
	var r objectReader
	if err := r.read(data, o); err != nil || o.output == nil {
		return err
	}
	var err error
	o.Output, err = r.elements(o.output)
	return err
}

// The members of a responseObject.
const (
	memberID member = iota + 1
	memberStatus
	memberOutput
	memberUsage
	memberFault
	memberIncomplete
)

func (o *responseObject) member(name []byte) member {
	switch string(name) {
	case `"id"`:
		return memberID
	case `"status"`:
		return memberStatus
	case `"output"`:
		return memberOutput
	case `"usage"`:
		return memberUsage
	case `"error"`:
		return memberFault
	case `"incomplete_details"`:
		return memberIncomplete
	}
	return 0
}

func (o *responseObject) set(m member, value []byte) (err error) {
	switch m {
	case memberID:
		o.ID, err = stringOf(value)
	case memberStatus:
		o.Status, err = stringOf(value)
	case memberOutput:
		o.output = value
	case memberUsage:
		err = json.Unmarshal(value, &o.Usage)
	case memberFault:
		o.Error = value
	case memberIncomplete:
		err = json.Unmarshal(value, &o.Incomplete)
	}
	return err
}
