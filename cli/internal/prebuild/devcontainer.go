package prebuild

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/helmdeck/repos/cli/internal/environment"
)

// devcontainerPaths are where a repository has its devcontainer.json. The first that there is counts.
var devcontainerPaths = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// notHere has the properties of devcontainer.json that make another image than a prebuild would use, with what they do.
var notHere = map[string]string{
	"build":             "it builds an image",
	"dockerFile":        "it builds an image",
	"dockerComposeFile": "it starts the services of a compose file",
	"features":          "they build an image",
}

// substituted matches the variables of devcontainer.json that a tool replaces before a shell sees them.
var substituted = regexp.MustCompile(`\$\{(localEnv|containerEnv|localWorkspaceFolder|containerWorkspaceFolder|localWorkspaceFolderBasename|containerWorkspaceFolderBasename|devcontainerId)\b[^}]*\}`)

// parseDevcontainer returns the image and the commands of a devcontainer.json: setup is onCreateCommand and then
// updateContentCommand, as for a new container, and update the latter alone.
func parseDevcontainer(data []byte) (image, setup, update string, err error) {
	if err := checkDepth(data); err != nil {
		return "", "", "", err
	}
	plain, err := hujson.Standardize(data)
	if err != nil {
		return "", "", "", err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(plain, &all); err != nil {
		return "", "", "", err
	}
	for _, name := range slices.Sorted(maps.Keys(notHere)) {
		if value := strings.Join(strings.Fields(string(all[name])), ""); value != "" && value != "{}" && value != "null" {
			return "", "", "", fmt.Errorf("it has %s, and a prebuild takes an image as it is: %s. Build the image, and name it as image", name, notHere[name])
		}
	}
	if err := json.Unmarshal(orNull(all["image"]), &image); err != nil {
		return "", "", "", fmt.Errorf("image: allowed is a string: %w", err)
	}
	create, err := parseCommand(all["onCreateCommand"])
	if err != nil {
		return "", "", "", fmt.Errorf("onCreateCommand: %w", err)
	}
	content, err := parseCommand(all["updateContentCommand"])
	if err != nil {
		return "", "", "", fmt.Errorf("updateContentCommand: %w", err)
	}
	setup, update = inTurn(append(create, content...)), inTurn(content)
	switch {
	case image == "":
		return "", "", "", errors.New("it has no image")
	case setup == "":
		return "", "", "", errors.New("it has neither onCreateCommand nor updateContentCommand")
	}
	if found := substituted.FindString(image + setup); found != "" {
		return "", "", "", fmt.Errorf("it has the variable %s, which only a tool for dev containers can replace", found)
	}
	return image, setup, update, nil
}

// maxDepth bounds how deep lists and objects of a devcontainer.json are in each other, because the parser calls itself for
// each level.
const maxDepth = 100

// checkDepth returns an error if a text of JSON with comments is too deep.
func checkDepth(data []byte) error {
	depth := 0
	for i := 0; i < len(data); i++ {
		rest := data[i:]
		switch {
		case rest[0] == '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				return nil
			}
			i += end
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 { // for the parser to refuse
				return nil
			}
			i += end + 3
		case rest[0] == '[' || rest[0] == '{':
			if depth++; depth > maxDepth {
				return fmt.Errorf("its lists and objects are more than %d deep in each other", maxDepth)
			}
		case rest[0] == ']' || rest[0] == '}':
			depth--
		}
	}
	return nil
}

// orNull returns a value of JSON, or null if there is none.
func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}

// parseCommand returns the commands of a property, each for sh: a string is one, a list is the words of one, and an
// object has several with names.
func parseCommand(value json.RawMessage) (commands []string, err error) {
	var text string
	var words []string
	var named map[string]json.RawMessage
	switch value = bytes.TrimSpace(orNull(value)); value[0] {
	case 'n':
		return nil, nil
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return nil, err
		}
	case '[':
		if err := json.Unmarshal(value, &words); err != nil {
			return nil, errors.New("a list has strings alone")
		}
		for i, w := range words {
			words[i] = environment.Quote(w)
		}
		text = strings.Join(words, " ")
	case '{':
		if err := json.Unmarshal(value, &named); err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if named[name][0] == '{' {
				return nil, fmt.Errorf("%q is an object in an object", name)
			}
			more, err := parseCommand(named[name])
			if err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
			commands = append(commands, more...)
		}
		return commands, nil
	default:
		return nil, errors.New("allowed are a string, a list of strings, and an object of these")
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	return []string{text}, nil
}

// inTurn returns a command that runs commands one after the other, each in a shell of its own, until one fails.
func inTurn(commands []string) string {
	if len(commands) == 1 {
		return commands[0]
	}
	var list []string
	for _, c := range commands {
		list = append(list, "sh -c "+environment.Quote(c))
	}
	return strings.Join(list, " && ")
}
