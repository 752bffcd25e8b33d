package echo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

const help = `/tool NAME JSON: call a declared tool; several lines call several at once
/then: what follows is for the next round trip of the same turn
/loop NAME JSON: call a declared tool in every round trip, without end
/think TEXT: think before answering
/long N: answer N words
/slow DURATION TEXT: say the answer word by word, with this pause (100ms) between words
/sleep DURATION: wait before answering
/fail STATUS ENTRY: fail with an HTTP status (500), 0 for no answer at all; with ENTRY only in that registry entry
/tools: list the declared tools
/system: repeat the system prompt
/help: list the commands`

const (
	defaultPause = 100 * time.Millisecond
	longestWait  = 10 * time.Minute
	mostWords    = 100_000
)

// split cuts a text into what is for each round trip.
func split(text string) (stages [][]string) {
	stages = [][]string{nil}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if word, _ := command(line); word == "/then" {
			stages = append(stages, nil)
			continue
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], line)
	}
	return stages
}

func loops(stage []string) bool {
	for _, line := range stage {
		if word, _ := command(line); word == "/loop" {
			return true
		}
	}
	return false
}

// command splits a line that begins with a slash; any other has no word.
func command(line string) (word, rest string) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "/") {
		return "", ""
	}
	word, rest, _ = strings.Cut(line, " ")
	return word, strings.TrimSpace(rest)
}

// scene plays the lines of one round trip into an answer.
type scene struct {
	prompt Prompt
	turn   int // messages so far, which makes ids of calls distinct
	answer Answer
	said   []string // lines of the user's that are no commands
}

func (s *scene) play(lines []string) {
	acted := false
	for _, line := range lines {
		if s.act(command(line)) {
			acted = true
		} else {
			s.said = append(s.said, line)
		}
	}
	if text := strings.TrimSpace(strings.Join(s.said, "\n")); text != "" || !acted {
		s.say("You said: " + text)
	}
}

// act carries a command out and reports whether it was one.
func (s *scene) act(word, rest string) bool {
	switch word {
	case "/tool", "/loop":
		s.call(word, rest)
	case "/think":
		s.answer.Blocks = append(s.answer.Blocks, Block{Type: Thinking, Text: rest})
	case "/long":
		s.long(rest)
	case "/slow":
		pause, text, _ := strings.Cut(rest, " ")
		s.answer.Pause = s.duration(word, pause, defaultPause)
		if text = strings.TrimSpace(text); text != "" {
			s.said = append(s.said, text)
		}
	case "/sleep":
		s.answer.Sleep = s.duration(word, rest, time.Second)
	case "/fail":
		s.fail(rest)
	case "/tools":
		s.listTools()
	case "/system":
		if s.prompt.System == "" {
			s.say("There is no system prompt.")
		} else {
			s.say("System prompt: " + s.prompt.System)
		}
	case "/help":
		s.say(help)
	default:
		return false
	}
	return true
}

// say adds to the text that the answer ends in, so that text stays one block.
func (s *scene) say(text string) {
	if n := len(s.answer.Blocks); n > 0 && s.answer.Blocks[n-1].Type == Text {
		s.answer.Blocks[n-1].Text += "\n" + text
		return
	}
	s.answer.Blocks = append(s.answer.Blocks, Block{Type: Text, Text: text})
}

func (s *scene) call(word, rest string) {
	name, input, _ := strings.Cut(rest, " ")
	input = strings.TrimSpace(input)
	if input == "" {
		input = "{}"
	}
	switch declared := s.declared(); {
	case name == "":
		s.say(word + " takes a tool's name and a JSON object.")
	case !slices.Contains(declared, name):
		s.say(fmt.Sprintf("No tool %q is declared; there is %s.", name, listed(declared)))
	case !gjson.Valid(input) || !gjson.Parse(input).IsObject():
		s.say(fmt.Sprintf("%s %s takes a JSON object as input, not %s", word, name, input))
	default:
		id := fmt.Sprintf("toolu_echo_%d_%d", s.turn, len(s.answer.Blocks))
		s.answer.Blocks = append(s.answer.Blocks, Block{Type: ToolUse, ID: id, Name: name, Input: []byte(input)})
	}
}

func (s *scene) long(rest string) {
	n, err := strconv.Atoi(rest)
	if err != nil || n < 1 || n > mostWords {
		s.say(fmt.Sprintf("/long takes a number of words from 1 to %d.", mostWords))
		return
	}
	words := make([]string, n)
	for i := range words {
		words[i] = "word" + strconv.Itoa(i+1)
	}
	s.say(strings.Join(words, " "))
}

func (s *scene) duration(word, rest string, preset time.Duration) time.Duration {
	if rest == "" {
		return preset
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > longestWait {
		s.say(fmt.Sprintf("%s takes a duration up to %v, like 500ms or 2s.", word, longestWait))
		return 0
	}
	return d
}

func (s *scene) fail(rest string) {
	text, entry, _ := strings.Cut(rest, " ")
	status := 500
	if text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || (n != 0 && (n < 300 || n > 599)) {
			s.say("/fail takes an HTTP status from 300 to 599, or 0 for no answer, and the name of a registry entry.")
			return
		}
		status = n
	}
	if entry = strings.TrimSpace(entry); entry == "" || entry == s.prompt.Entry {
		s.answer.Failed, s.answer.Status = true, status
	}
}

func (s *scene) listTools() {
	s.say("Tools: " + listed(s.declared()) + ".")
}

func (s *scene) declared() (names []string) {
	for _, t := range gjson.ParseBytes(s.prompt.Tools).Array() {
		names = append(names, t.Get("name").Str)
	}
	return names
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
