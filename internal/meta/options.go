package meta

import (
	"encoding/json"
	"strings"
)

// Options are options of a volume: the JSON object of names and values, with sorted names, so
// that equal options are equal strings. In memory it takes a fifth of a map.
type Options string

// OptionsOf returns the Options of a map.
func OptionsOf(m map[string]string) Options {
	data, _ := json.Marshal(m) // strings alone can't fail
	return Options(data)
}

// Map returns the options by name.
func (o Options) Map() map[string]string {
	var m map[string]string
	_ = json.Unmarshal([]byte(o), &m) // OptionsOf or UnmarshalJSON made it
	return m
}

// Is reports whether an option has a value, without parsing. Neither may need an escape in JSON.
func (o Options) Is(name, value string) bool {
	return strings.Contains(string(o), `"`+name+`":"`+value+`"`)
}

// MarshalJSON returns the object.
func (o Options) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	return []byte(o), nil
}

// UnmarshalJSON reads an object of strings.
func (o *Options) UnmarshalJSON(data []byte) error {
	var m map[string]string
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	*o = OptionsOf(m)
	return nil
}
